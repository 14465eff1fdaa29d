"""The programs that a device needs: uploaded once, by digest."""

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tvmake.config.device import ShellDeviceConfig
from tvmake.config.device_variables import plain
from tvmake.device.architecture import UNKNOWN, check_library, name_of
from tvmake.device.transport.remote_store import key_of, upload
from tvmake.device.transport.shell import Finished, Shell, command_line
from tvmake.device.transport.shell_facts import Facts
from tvmake.errors import DeviceError, InputError, TvmakeError
from tvmake.native.bundle import bundle, has_built_in_opencl, program
from tvmake.process.supervised import last_line

RUN, SERVE = "tvmake-run", "tvmake-serve"
OPENCL = "libtvmake_opencl.so"
"""The OpenCL runtime, which the programs load with --load-library."""

NO_LIBRARY = re.compile(r"error while loading shared libraries: (\S+): cannot open|library \"(\S+)\" not found")
OTHER_LIBRARY = re.compile(r"undefined symbol|cannot locate symbol")
INCOMPATIBLE = re.compile(
    r"Exec format error|not executable|No such file or directory|not found|inaccessible|CANNOT LINK EXECUTABLE"
)
"""Messages of shells, glibc's loader and Android's loader for a program that does not start."""

VERSION = re.compile(r"for apache-tvm (\S+)")
"""The version in the output of ``tvmake-run --version``."""

STARTED = re.compile(r"^error: ", re.MULTILINE)
"""The beginning of the programs' own errors."""


@dataclass(frozen=True)
class Programs:
    """Programs and their libraries on a device."""

    path: str
    sent_bytes: int
    loads_opencl: bool
    """Whether to load the OpenCL runtime, a library beside them."""

    def command(self, program: str, config: ShellDeviceConfig) -> list[str]:
        """The beginning of a command line: variables, and the libraries beside the programs."""
        variables = plain(config.env, "this device") | {"LD_LIBRARY_PATH": self.path}
        if config.threads:
            variables["TVM_NUM_THREADS"] = str(config.threads)
        command = ["env", *(f"{name}={value}" for name, value in variables.items()), f"{self.path}/{program}"]
        return [*command, "--load-library", f"{self.path}/{OPENCL}"] if self.loads_opencl else command


def install(
    shell: Shell, config: ShellDeviceConfig, facts: Facts, name: str, is_android: bool, with_opencl: bool = False
) -> Programs:
    """Upload the programs for this device, unless it has them.

    Raises:
        InputError: the config's directory lacks programs, or has those of another TVM version.
        DeviceError: there are no programs for this processor, or the device cannot be written.
    """
    directory = (
        Path(config.programs).expanduser() if config.programs else _bundle_directory(facts, is_android, with_opencl)
    )
    files = {file.name: file for file in sorted(directory.glob("*")) if file.is_file()} if directory.is_dir() else {}
    for required in (RUN, SERVE):
        if required not in files:
            remedy = "name the directory with tvmake-run, tvmake-serve and their libraries (docs/guides/native.md)"
            raise InputError(f"devices.{name}.programs", f"{directory} has no {required}", remedy)
    loads_opencl = with_opencl and not has_built_in_opencl(directory)
    if loads_opencl and OPENCL not in files:
        problem = f"{directory} has no {OPENCL}, which OpenCL packages need"
        raise InputError(f"devices.{name}.programs", problem, "build it (docs/guides/native.md)")
    if config.programs and name_of(files[RUN]) != UNKNOWN:  # otherwise a script may start the program
        for_it = "name a directory with programs for it (docs/guides/native.md), or leave the key out"
        check_library(files[RUN], facts.machine, f"devices.{name}.programs", for_it)
    uploaded = upload(shell, files, f"{facts.directory}/programs/{key_of(files)}", tuple(files))
    programs = Programs(uploaded.path, uploaded.sent_bytes, loads_opencl)
    if config.programs:
        _check_version(shell, programs.command(RUN, config), name)
    return programs


def start_error(finished: Finished, program: str, where: str, name: str) -> TvmakeError | None:
    """The reason why a program did not start on a device; None if it did.

    Args:
        name: the device's name in the config.
    """
    errors, key = finished.errors, f"devices.{name}.programs"
    if finished.code == 0 or finished.code > 127 or STARTED.search(errors):
        return None
    if missing := NO_LIBRARY.search(errors):
        return InputError(
            key, f"{program} does not find {missing[1] or missing[2]}", "copy it to the programs' directory"
        )
    if OTHER_LIBRARY.search(errors):
        return InputError(
            key, f"{program} and the libraries beside it do not match ({last_line(errors)})", "rebuild all of them"
        )
    if finished.code == 126 and "Permission denied" in errors:
        remedy = f"its file system may be mounted noexec: set devices.{name}.directory to one where programs run"
        return DeviceError(where, f"it may not start {program} ({last_line(errors)})", remedy)
    if INCOMPATIBLE.search(errors):
        problem = f"it cannot start {program} ({last_line(errors)})"
        return DeviceError(where, problem, f"the program is for another processor or C library: set {key}")
    return None


def _check_version(shell: Shell, command: list[str], name: str) -> None:
    finished = shell.run(command_line([*command, "--version"]))
    if error := start_error(finished, RUN, shell.where, name):
        raise error
    version, wanted = VERSION.search(finished.output), metadata.version("apache-tvm").partition("+")[0]
    if version and version[1] != wanted:
        problem = f"they were built for TVM {version[1]}, and packages here are built with TVM {wanted}"
        raise InputError(f"devices.{name}.programs", problem, "rebuild them for this version (docs/guides/native.md)")


def _bundle_directory(facts: Facts, is_android: bool, with_opencl: bool) -> Path:
    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return bundle(facts.machine, "android" if is_android else "linux", with_opencl, tell)


def native_server() -> Path:
    """The native RPC server for this machine, built if necessary.

    Raises:
        MachineError: it cannot be built here.
    """
    return program("server")
