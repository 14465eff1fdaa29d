"""The programs a device needs: brought there by digest, once."""

from dataclasses import dataclass
from pathlib import Path

from tvmake.config.device import DeviceConfig
from tvmake.device.remote_store import key_of, place
from tvmake.device.shell import Shell
from tvmake.device.shell_facts import Facts
from tvmake.errors import InputError

RUN, SERVE = "tvmake-run", "tvmake-serve"
OPENCL = "libtvmake_opencl.so"
"""The OpenCL runtime, which the programs load when they are told to."""


@dataclass(frozen=True)
class Programs:
    """Programs and their libraries on a device."""

    path: str
    sent_bytes: int
    has_opencl: bool

    def command(self, program: str, config: DeviceConfig) -> list[str]:
        """The beginning of a command line: variables, and libraries looked for beside the programs."""
        variables = dict(config.env) | {"LD_LIBRARY_PATH": self.path}
        if config.threads:
            variables["TVM_NUM_THREADS"] = str(config.threads)
        command = ["env", *(f"{name}={value}" for name, value in variables.items()), f"{self.path}/{program}"]
        return [*command, "--load-library", f"{self.path}/{OPENCL}"] if self.has_opencl else command


def bring(
    shell: Shell, config: DeviceConfig, facts: Facts, name: str, is_android: bool, with_opencl: bool = False
) -> Programs:
    """Have the programs for this device there.

    Args:
        with_opencl: have the OpenCL runtime, too.

    Raises:
        InputError: the config's directory lacks them.
        DeviceError: there are none for this processor, or the device cannot be written.
    """
    directory = Path(config.programs).expanduser() if config.programs else _made_for(facts, is_android, with_opencl)
    files = {file.name: file for file in sorted(directory.glob("*")) if file.is_file()} if directory.is_dir() else {}
    for program in (RUN, SERVE):
        if program not in files:
            raise InputError(
                f"devices.{name}.programs",
                f"{directory} has no {program}",
                "name the directory with tvmake-run, tvmake-serve and their libraries (docs/native.md)",
            )
    if with_opencl and OPENCL not in files:
        raise InputError(
            f"devices.{name}.programs",
            f"{directory} has no {OPENCL}, which OpenCL packages need",
            "build it (docs/native.md)",
        )
    placed = place(shell, files, f"{facts.directory}/programs/{key_of(files)}", tuple(files))
    return Programs(placed.path, placed.sent_bytes, with_opencl)


def _made_for(facts: Facts, is_android: bool, with_opencl: bool) -> Path:
    from tvmake.native.bundle import bundle

    return bundle(facts.machine, "android" if is_android else "linux", with_opencl)


def native_server() -> Path:
    """The native RPC server for this machine, built if need be.

    Raises:
        MachineError: it cannot be built here.
    """
    from tvmake.native.bundle import program
    from tvmake.native.parts import SERVER

    return program(SERVER)
