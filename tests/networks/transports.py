"""Every way to a device, as far as one machine can have them: drivers, servers, programs, an emulated processor."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from tests.device.configs import device_config
from tests.device.transport.adb_stand_in import AdbServer
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.native.emulated import EMULATOR, SAYS_AARCH64, arm_programs, emulated_programs
from tests.native.opencl_device import POCL, require_opencl
from tests.native.servers import NativeFarm
from tests.requirements import require
from tests.tune.measure.farm import HOST
from tvmake.config.device import DeviceConfig

Transport = Callable[[Path], AbstractContextManager[DeviceConfig]]
"""Has a device there for the length of a block, with its files in a directory."""


def intel_icd() -> Path:
    """The file that names Intel's OpenCL driver for CPUs."""
    directory = os.environ.get("TVMAKE_INTEL_OPENCL") or native.ROOT / ".venv-intel-opencl"
    icd = Path(directory) / "intel.icd"
    require(icd.is_file(), f"Intel's OpenCL for CPUs: envs/intel-opencl.sh python3 {directory}")
    return icd


@contextmanager
def pocl(directory: Path) -> Iterator[DeviceConfig]:
    require_opencl()
    yield device_config(env={"TVMAKE_OPENCL_PLATFORM": POCL})


@contextmanager
def intel(directory: Path) -> Iterator[DeviceConfig]:
    # Without its vectoriser, the driver compiles a network in a little more than half the time.
    yield device_config(env={"OCL_ICD_VENDORS": str(intel_icd()), "CL_CONFIG_CPU_VECTORIZER_MODE": "1"})


@contextmanager
def rpc(directory: Path) -> Iterator[DeviceConfig]:
    with _farm([str(native.programs() / "tvmake-serve")], directory) as config:
        yield config


@contextmanager
def rpc_arm(directory: Path) -> Iterator[DeviceConfig]:
    with _farm([*EMULATOR, str(arm_programs() / "tvmake-serve")], directory) as config:
        yield config


@contextmanager
def _farm(command: list[str], directory: Path) -> Iterator[DeviceConfig]:
    with closing(NativeFarm(command, directory)) as farm:
        yield device_config(via="rpc", tracker=f"{HOST}:{farm.port}", key=farm.key)


@contextmanager
def ssh(directory: Path) -> Iterator[DeviceConfig]:
    with _sshd(directory) as sshd:
        yield device_config(**sshd.config(programs=str(native.programs())))


@contextmanager
def ssh_arm(directory: Path) -> Iterator[DeviceConfig]:
    with _sshd(directory) as sshd:
        sshd.says("uname", SAYS_AARCH64)
        yield device_config(**sshd.config(programs=str(emulated_programs(directory / "programs"))))


@contextmanager
def _sshd(directory: Path) -> Iterator[Sshd]:
    sshd = Sshd(directory / "sshd")
    try:
        yield sshd
    finally:
        sshd.stop()


@contextmanager
def adb(directory: Path) -> Iterator[DeviceConfig]:
    with phones(directory) as server:
        server.add("PHONE")
        yield device_config(via="adb", serial="PHONE", programs=str(native.programs()))


@contextmanager
def adb_arm(directory: Path) -> Iterator[DeviceConfig]:
    with phones(directory) as server:
        server.add("PHONE").says("uname", SAYS_AARCH64)
        yield device_config(via="adb", serial="PHONE", programs=str(emulated_programs(directory / "programs")))


@contextmanager
def phones(directory: Path) -> Iterator[AdbServer]:
    """A stand-in for adb's server, to which clients go while the block lasts."""
    with closing(AdbServer(directory / "phones")) as server, pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANDROID_SERIAL", raising=False)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
