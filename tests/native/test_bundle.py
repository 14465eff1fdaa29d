"""What goes to a device: complete, by digest, and one clear error where tvmake cannot make it."""

import json
import platform
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.native import devices
from tests.native.devices import run
from tvmake.errors import MachineError
from tvmake.native.bundle import CONTENTS, bundle, pack
from tvmake.storage.files import digest_file


def test_a_bundle_runs_wherever_it_is_copied_to(programs: Path, package: Path, tmp_path: Path):
    copied = Path(shutil.copytree(programs, tmp_path / "elsewhere"))
    assert run([str(copied / "tvmake-run")], "--package", package, "--runs", 1).returncode == 0
    assert run([str(copied / "tvmake-run")], "--version").stdout == "tvmake-run for apache-tvm 0.27.0.post1\n"
    for program in ("tvmake-run", "tvmake-serve"):
        assert run([str(copied / program)], "--help").stdout.startswith(f"usage: {program}")


def test_a_bundle_tells_its_contents(programs: Path):
    contents = json.loads((programs / CONTENTS).read_text())
    assert (contents["machine"], contents["system"]) == (platform.machine(), "linux")
    assert {name: entry["sha256"] for name, entry in contents["files"].items()} == {
        file.name: digest_file(file) for file in programs.iterdir() if file.name != CONTENTS
    }
    assert devices.programs() == programs


def test_equal_bundles_are_equal_archives(programs: Path, tmp_path: Path):
    copied = shutil.copytree(programs, tmp_path / "elsewhere", copy_function=shutil.copyfile)
    pack(programs, tmp_path / "one.tar")
    pack(Path(copied), tmp_path / "other.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "other.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as archive:
        assert archive.getmember("tvmake-run").mode == 0o755


@pytest.mark.parametrize(("machine", "system"), [("riscv64", "linux"), ("armv7l", "android"), ("armv7l", "musl")])
def test_programs_that_cannot_be_made_here_are_one_clear_error(machine: str, system: str):
    with pytest.raises(
        MachineError, match=f"programs for {system} on {machine}: tvmake cannot build them here"
    ) as caught:
        bundle(machine, system)
    assert "devices.NAME.programs" in str(caught.value)
