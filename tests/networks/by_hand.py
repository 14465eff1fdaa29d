"""Packages on a device without tvmake: the native runner and adb, as one types them."""

import subprocess
import tarfile
import zipfile
from pathlib import Path

from tests.device.transport.adb_stand_in import AdbServer
from tests.native.devices import run
from tests.patience import HANG_S
from tvmake.artifact.tensor_file import member, read_array
from tvmake.config.validation import Goals
from tvmake.device.interface import RunRequest
from tvmake.validate.numerics import Comparison, NumericsReport
from tvmake.validate.reference.stored import ReferenceSet


def with_the_runner(
    program: list[str], package: Path, reference: Path, goals: Goals, directory: Path
) -> NumericsReport:
    """Unpack, run, and compare what comes out with the reference."""
    request = _requested(reference, directory)
    with tarfile.open(package) as archive:
        archive.extractall(directory / "package", filter="data")
    outputs = directory / "outputs.npz"
    there = ["--package", directory / "package", "--request", request, "--inputs", reference]
    done = run(program, *there, "--outputs", outputs, "--result", directory / "result.json")
    assert (done.returncode, done.stderr) == (0, ""), done
    return _judged(reference, outputs, goals)


def with_adb(
    server: AdbServer, programs: Path, package: Path, reference: Path, goals: Goals, directory: Path
) -> NumericsReport:
    """``adb push``, ``adb shell``, ``adb pull``: the platform tools' own client."""
    there = "/data/local/tmp/by-hand"
    request = _requested(reference, directory)
    _adb(server, "shell", f"mkdir -p {there}/package")
    _adb(server, "push", *map(str, sorted(programs.iterdir())), there)
    _adb(server, "push", str(package), str(request), str(reference), there)
    _adb(server, "shell", f"tar -xf {there}/{package.name} -C {there}/package")
    options = "--package package --request request.json --inputs reference.npz --outputs out.npz --result result.json"
    _adb(server, "shell", f"cd {there} && LD_LIBRARY_PATH=. ./tvmake-run {options}")
    _adb(server, "pull", f"{there}/out.npz", str(directory / "outputs.npz"))
    return _judged(reference, directory / "outputs.npz", goals)


def _adb(server: AdbServer, *arguments: str) -> None:
    command = ["adb", "-P", str(server.port), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done


def _requested(reference: Path, directory: Path) -> Path:
    asked = RunRequest(samples=len(ReferenceSet(reference)), repeat_first=True)
    (directory / "request.json").write_text(asked.model_dump_json())
    return directory / "request.json"


def _judged(reference: Path, outputs: Path, goals: Goals) -> NumericsReport:
    known = ReferenceSet(reference)
    comparison = Comparison(goals)
    (spec,) = known.info.signature.outputs
    with zipfile.ZipFile(outputs) as archive:
        got = [
            {spec.name: read_array(archive, member("output", spec.name, number), spec.dtype)}
            for number in range(len(known) + 1)
        ]
    for sample, output in zip(known, got, strict=False):
        comparison.add(sample.outputs, output)
    comparison.add_repeat(got[0], got[-1])
    return comparison.report()
