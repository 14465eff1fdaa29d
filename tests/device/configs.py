"""Devices as configs describe them."""

from pydantic import TypeAdapter

from tvmake.config.benchmark import Measurement
from tvmake.config.device import DeviceConfig
from tvmake.config.limits import MOST_REPETITIONS
from tvmake.device.interface import RunRequest

ENDLESS = RunRequest(samples=1, measurement=Measurement(number=MOST_REPETITIONS, repeat=MOST_REPETITIONS))
"""A run that only ends by being ended."""


def device_config(**values: object) -> DeviceConfig:
    """A device with these keys; this machine unless ``via`` names another way."""
    device: DeviceConfig = TypeAdapter(DeviceConfig).validate_python(values)
    return device
