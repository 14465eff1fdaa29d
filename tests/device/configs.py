"""Devices as configs describe them."""

from pydantic import TypeAdapter

from tvmake.config.device import DeviceConfig


def device_config(**values: object) -> DeviceConfig:
    """A device with these keys; this machine unless ``via`` names another way."""
    device: DeviceConfig = TypeAdapter(DeviceConfig).validate_python(values)
    return device
