"""Packages in Java: the library over the C interface, on this machine's JDK."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.native import devices, stateful
from tests.native.java_programs import LIBRARY, PROGRAMS, STEADY, compiled, java, native_libraries, sources
from tvmake.artifact.package import REQUIRED, pack

MOST_GROWTH_KB = 2048
"""Of the process's memory over 10,000 runs; a leak of 200 bytes a run is as much."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(sources(LIBRARY, PROGRAMS / "uses"), tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def libraries(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return native_libraries(programs, tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked package, and a package.tar of it beside it."""
    directory = tmp_path_factory.mktemp("digits")
    root = devices.package_for(devices.digits(directory), directory / "digits")
    shutil.rmtree(root / "sources", ignore_errors=True)
    (root / "packing.json").unlink()
    pack({name: root / name for name in REQUIRED}, directory / "package.tar")
    return root


@pytest.fixture
def uses(classes: Path, libraries: Path):
    def run(*arguments: object, options: tuple[str, ...] = ()) -> list[str]:
        done = java(classes, libraries, "Uses", *arguments, options=options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run


def test_a_package_tells_what_it_takes_and_gives(uses, digits: Path):
    assert uses("describe", digits) == ["['image' float32 [1, 1, 8, 8]] ['logits' float32 [1, 10]]"]


def test_outputs_are_those_of_tvmake_run_from_arrays_and_from_direct_buffers(uses, digits: Path, tmp_path: Path):
    image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    image.tofile(tmp_path / "in.raw")
    np.save(tmp_path / "in.npy", image)
    assert uses("run", digits, tmp_path / "in.raw", tmp_path / "out.raw") == ["float32 [1, 10]"]
    command = [Path(sys.executable).with_name("tvmake"), "run", digits.parent / "package.tar"]
    subprocess.run([*command, "-i", tmp_path / "in.npy", "-o", tmp_path / "out.npz"], check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as outputs:
        expected = outputs["logits"]
    assert np.ptp(expected) > 1
    found = np.fromfile(tmp_path / "out.raw", np.float32).reshape(1, 10)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_virtual_machines_own_checks_find_nothing_wrong_with_the_native_code(uses, digits: Path, tmp_path: Path):
    np.zeros(64, np.float32).tofile(tmp_path / "in.raw")
    said = uses("run", digits, tmp_path / "in.raw", tmp_path / "out.raw", options=("-Xcheck:jni",))
    said += uses("mistakes", digits, options=("-Xcheck:jni",))
    assert not [line for line in said if "JNI" in line or "native method" in line]


def test_what_does_not_fit_is_named_with_what_the_package_expects(uses, digits: Path):
    takes, gives = "'image' float32 [1, 1, 8, 8]", "'logits' float32 [1, 10]"
    assert uses("mistakes", digits) == [
        "INPUT inputs: the package has no input 'photo'",
        f"  its inputs are {takes}",
        "INPUT inputs: no value for 'image'",
        f"  the package takes {takes}",
        f"INPUT input 'image' is float32 [1, 8, 8], and the package takes {takes}",
        f"INPUT input 'image' is int32 [1, 1, 8, 8], and the package takes {takes}",
        f"INPUT input 'image' is null, and the package takes {takes}",
        "INPUT outputs: the package has no output 'scores'",
        f"  its outputs are {gives}",
        f"INPUT output 'logits' is float32 [10], and the package gives {gives}",
        "INPUT tensor: float32 [1, 8] has 32 bytes, 40 are given",
        "INPUT tensor: a dimension is negative in float32 [?, 10]",
        "INPUT tensor: the buffer is not direct",
        "INPUT tensor: the buffer is read-only",
        "INPUT tensor: float32 [1099511627776, 1099511627776] is too large for a Java buffer",
        "INPUT tensor: it is float32 [1, 1, 8, 8], not int32",
        "INPUT --device: no such kind of device: 'abacus'",
        "  known: cpu, cuda, hexagon, metal, opencl, rocm, vulkan",
        "UnsupportedOperationException",
        "float32 [1, 10]",
        f"INPUT {digits}: the package is closed",
    ]


@pytest.mark.parametrize("file", REQUIRED)
def test_a_damaged_package_is_an_exception_before_any_of_it_runs(uses, digits: Path, tmp_path: Path, file: str):
    directory = tmp_path / "damaged"
    shutil.copytree(digits, directory)
    content = bytearray((directory / file).read_bytes())
    content[len(content) // 2] ^= 1
    (directory / file).write_bytes(content)
    first, remedy = uses("open", directory)
    assert first.startswith(f"INPUT {directory}: {file} is ")
    assert remedy.startswith("  rebuild the package")
    (directory / file).write_bytes(b"")
    assert uses("open", directory)[0].startswith(f"INPUT {directory}: {file} is ")


def test_what_is_not_a_package_is_an_exception(uses, tmp_path: Path):
    assert uses("open", tmp_path / "nothing")[0] == f"INPUT {tmp_path / 'nothing'}: no such package"
    assert uses("open", tmp_path)[0] == f"INPUT {tmp_path}: mod.json is missing"


def test_a_device_that_is_not_there_is_the_devices_fault(uses, digits: Path):
    assert uses("open", digits, "vulkan")[0].startswith("DEVICE device 'vulkan': there is none")


def test_missing_native_libraries_are_named(classes: Path, libraries: Path, digits: Path, tmp_path: Path):
    done = java(classes, tmp_path, "Uses", "open", digits)
    assert done.stdout.startswith("DEVICE native libraries: cannot be loaded (no tvmake_jni in java.library.path")
    shutil.copy(libraries / "libtvmake_jni.so", tmp_path)
    done = java(classes, tmp_path, "Uses", "open", digits)
    assert done.stdout.startswith("DEVICE native libraries: cannot be loaded (libtvmake_package.so: cannot open shared")


def test_threads_share_packages_and_each_gets_the_outputs_of_its_own_input(uses, digits: Path):
    assert uses("threads", digits, 500) == ["done"]


def test_ten_thousand_runs_and_a_thousand_packages_leave_nothing_behind(uses, digits: Path):
    ((before, after),) = (map(int, line.split()) for line in uses("memory", digits, 10_000, options=STEADY))
    assert after - before < MOST_GROWTH_KB


def test_states_sessions_and_snapshots_are_those_of_the_c_interface(uses, digits: Path, tmp_path: Path):
    accumulator = stateful.accumulator(tmp_path)
    checked = uses("states", accumulator, digits, options=("-Xcheck:jni",))
    assert not [line for line in checked if "JNI" in line or "native method" in line]
    lines = uses("states", accumulator, digits)
    assert lines[:10] == [
        "['s' float32 [1, 4]]",
        "1.0 3.0",
        "10.0 6.0",
        "7.0",
        "5.0",
        "6.0",
        "0.0",
        "200.0",
        "400.0",
        "600.0",
    ]
    assert lines[10:14] == [
        "30.0",
        "true",
        "INPUT snapshot: is truncated: 15 bytes of states, expected 16",
        "  take it again",
    ]
    assert lines[14] == "[]" and lines[15].startswith(
        "INPUT snapshot: belongs to another package: its sha256 begins with "
    )
    closed = f"INPUT {accumulator}: the package is closed"
    assert lines[16:] == ["  restore it in the package that it was taken from", closed, closed]


def test_exceptions_that_java_makes_of_faults_work_with_tvm_in_the_process(uses, digits: Path):
    """TVM's library takes the signal that they come by; without it back, the process would end here."""
    assert uses("faults", digits) == ["200000"]


def test_a_package_from_anywhere_is_unpacked_once_and_mended_where_it_is_damaged(uses, digits: Path, tmp_path: Path):
    directory = tmp_path / "app" / "package"
    *steps, broken = uses("files", digits, directory)
    assert [step.split()[:2] for step in steps] == [
        ["unpacked", "3"],
        ["again", "1"],
        ["damaged", "4"],
        ["cut", "3"],
        ["interrupted", "4"],
    ]
    assert broken == f"DEVICE {directory}: the package cannot be unpacked: mod.json cannot be read"
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == {
        name: (digits / name).read_bytes() for name in REQUIRED
    }
    assert all(file.stat().st_mode & 0o222 == 0 for file in directory.iterdir())
