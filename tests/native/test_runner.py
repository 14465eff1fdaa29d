"""The native runner keeps the contract of the Python worker: outputs, figures, and one clear error for each mistake."""

import json
import platform
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.native.devices import package_for, programs, request_file, run
from tests.native.opencl_device import require_opencl
from tvmake.artifact.manifest import FileEntry
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack, read_manifest, verify_directory
from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.target import TargetConfig
from tvmake.device.interface import RunResult
from tvmake.device.store import put
from tvmake.errors import InputError
from tvmake.storage.files import digest_file

WORKER = "import sys; from tvmake.device.local.worker import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def runner(programs: Path) -> list[str]:
    return [str(programs / "tvmake-run")]


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype("float32")


def inputs_file(path: Path, *samples: np.ndarray, name: str = "x") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for number, sample in enumerate(samples):
            write_array(archive, member("input", name, number), sample)
    return path


def outputs_of(path: Path, count: int, name: str = "y") -> list[np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return [read_array(archive, member("output", name, number)) for number in range(count)]


def test_outputs_are_the_python_workers_byte_for_byte(runner: list[str], package: Path, tmp_path: Path):
    request = request_file(tmp_path, {"samples": 2, "repeat_first": True})
    inputs = inputs_file(tmp_path / "in.npz", image(0), image(1))
    pack({name: package / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, tmp_path / "package.tar")
    stored = put(tmp_path / "package.tar", tmp_path / "store")
    arguments = [str(stored), str(request), str(inputs), str(tmp_path / "worker.json"), str(tmp_path / "worker.npz")]
    subprocess.run([sys.executable, "-c", WORKER, *arguments], check=True)
    done = run(
        runner, "--package", package, "--request", request, "--inputs", inputs,
        "--outputs", tmp_path / "native.npz", "--result", tmp_path / "native.json",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "native.npz").read_bytes() == (tmp_path / "worker.npz").read_bytes()
    first, second, again = outputs_of(tmp_path / "native.npz", 3)
    assert np.array_equal(first, again) and not np.allclose(first, second)
    theirs, ours = (
        RunResult.model_validate_json((tmp_path / f"{who}.json").read_bytes()) for who in ("worker", "native")
    )
    alike = ("kind", "soc", "cores", "memory_bytes", "os", "runtime")
    assert [getattr(ours.fingerprint, key) for key in alike] == [getattr(theirs.fingerprint, key) for key in alike]
    assert ours.fingerprint.details["threads"] == "1" and ours.fingerprint.details["runner"] == "native"


def test_a_package_is_timed_as_asked(runner: list[str], package: Path, tmp_path: Path):
    timing = measured(runner, package, tmp_path, {"warmup": 2, "repeat": 4, "number": 3, "profile_ops": True}).timing
    assert len(timing.samples_ms) == 4 and len(timing.warmup_ms) == 2 and timing.number == 3
    assert all(value > 0 for value in [*timing.samples_ms, timing.load_ms, timing.first_run_ms])
    assert any("conv2d" in op.name for op in timing.op_runs) and {op.run for op in timing.op_runs} == set(range(5))
    assert timing.peak_memory_bytes >= timing.baseline_memory_bytes > 0


def test_samples_continue_until_they_last_long_enough(runner: list[str], package: Path, tmp_path: Path):
    how = {"warmup": 0, "repeat": 2, "min_repeat_ms": 200, "min_duration_s": 0.1, "percentile": "p90", "noise_cv": 0.1}
    timing = measured(runner, package, tmp_path, how).timing
    assert timing.number > 1 and timing.warmup_ms == []
    assert sum(timing.samples_ms) * timing.number >= 100


def measured(runner: list[str], package: Path, directory: Path, how: dict) -> RunResult:
    request = request_file(directory, {"samples": 1, "want_outputs": False, "repeat_first": False, "measurement": how})
    inputs = inputs_file(directory / "in.npz", image())
    done = run(
        runner, "--package", package, "--request", request, "--inputs", inputs, "--result", directory / "result.json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    return RunResult.model_validate_json((directory / "result.json").read_bytes())


def test_memory_is_the_runs_own_not_that_of_who_started_it(runner: list[str], package: Path, tmp_path: Path):
    ballast = np.ones(200 << 20, "uint8")
    timing = measured(runner, package, tmp_path, {"repeat": 1}).timing
    assert timing.peak_memory_bytes < ballast.nbytes


def test_without_a_request_inputs_are_made_and_a_summary_printed(runner: list[str], package: Path, tmp_path: Path):
    done = run(runner, "--package", package, "--runs", 5, "--warmup", 1, "--number", 2, "--threads", 1,
               "--outputs", tmp_path / "out.npz")  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["model"], summary["samples"], summary["number"], summary["threads"]) == ("net", 5, 2, "1")
    order = [summary[key] for key in ("min_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms")]
    assert order == sorted(order) and summary["min_ms"] <= summary["mean_ms"] <= summary["max_ms"]
    assert summary["load_ms"] > 0 and summary["first_run_ms"] > 0 and summary["peak_memory_bytes"] > 0
    (output,) = outputs_of(tmp_path / "out.npz", 1)
    assert output.sum() == pytest.approx(1, abs=1e-5)


def test_a_dynamic_package_runs_on_any_extent(runner: list[str], dynamic_net, tmp_path: Path):
    package = package_for(dynamic_net, tmp_path / "package")
    inputs = inputs_file(tmp_path / "in.npz", np.ones((2, 3, 4), "float32"))
    for extents in (["--inputs", inputs], ["--dim", "n=2", "--dim", "m=3"]):
        done = run(runner, "--package", package, "--runs", 1, "--outputs", tmp_path / "out.npz", *extents)
        assert done.returncode == 0, done.stderr
        assert outputs_of(tmp_path / "out.npz", 1)[0].shape == (36, 5)
    done = run(runner, "--package", package, "--dim", "n=2")
    assert (done.returncode, done.stderr) == (
        1, "error: inputs: input 'x' has the dynamic dimension 'm'\n  give --dim m=N, or --inputs\n"
    )  # fmt: skip


def test_sizes_beyond_bounds_are_refused(runner: list[str], bounded_net, tmp_path: Path):
    package = package_for(bounded_net, tmp_path / "package")
    done = run(runner, "--package", package, "--dim", "batch=4", "--dim", "length=64", "--runs", 1)
    assert done.returncode == 0, done.stderr
    for size, problem in (("length=65", "length is 65 in 'mask'; this package takes 0 to 64"),
                          ("batch=0", "batch is 0 in 'mask'; this package takes 1 to 4")):  # fmt: skip
        done = run(runner, "--package", package, "--dim", "batch=4", "--dim", "length=64", "--dim", size)
        assert (done.returncode, done.stderr) == (1, f"error: inputs: {problem}\n")


@pytest.mark.long
def test_an_opencl_package_runs_on_an_opencl_device(static_net, package: Path, tmp_path: Path):
    require_opencl()
    runner = [str(programs(platform.machine(), with_opencl=True) / "tvmake-run")]
    there = package_for(static_net, tmp_path / "opencl", TargetConfig(kind="opencl"))
    inputs = inputs_file(tmp_path / "in.npz", image())
    kept = {"HOME": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path)}
    for directory in (there, package):
        outputs = ["--outputs", tmp_path / f"{directory.name}.npz", "--result", tmp_path / f"{directory.name}.json"]
        done = run(runner, "--package", directory, "--inputs", inputs, "--runs", 2, "--profile", *outputs, **kept)
        assert done.returncode == 0, done.stderr
    (ours,), (theirs,) = (outputs_of(tmp_path / f"{directory.name}.npz", 1) for directory in (there, package))
    assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    result = RunResult.model_validate_json((tmp_path / "opencl.json").read_bytes())
    assert (
        result.fingerprint.kind == "opencl" and result.fingerprint.details["opencl"] != "yes" and result.timing.op_runs
    )


# --- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LIBRARY, WEIGHTS, MANIFEST])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_file_that_changed_is_not_loaded(runner: list[str], package: Path, tmp_path: Path, name: str, damage: str):
    directory = Path(shutil.copytree(package, tmp_path / "damaged"))
    file = directory / name
    data = file.read_bytes()
    file.unlink()
    if damage != "remove":
        file.write_bytes(
            data[: len(data) // 2] if damage == "truncate" else data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        )
    with pytest.raises(InputError) as caught:
        verify_directory(directory, str(directory))
    done = run(runner, "--package", directory, "--runs", 1)
    assert (done.returncode, done.stdout) == (1, "")
    if name == MANIFEST and damage != "remove":  # what is wrong with the JSON is said in other words
        assert done.stderr.startswith(f"error: {directory}: mod.json is ")
    else:
        assert done.stderr == f"error: {caught.value}\n"


def test_a_manifest_with_another_spelling_of_the_same_content_is_intact(
    runner: list[str], package: Path, tmp_path: Path
):
    directory = Path(shutil.copytree(package, tmp_path / "respelled"))
    manifest = read_manifest((directory / MANIFEST).read_bytes(), "test")
    (directory / MANIFEST).unlink()
    (directory / MANIFEST).write_text(manifest.model_dump_json(indent=3))
    assert run(runner, "--package", directory, "--runs", 1).returncode == 0


def test_code_for_another_processor_is_named(runner: list[str], package: Path, tmp_path: Path):
    directory = Path(shutil.copytree(package, tmp_path / "foreign"))
    data = (directory / LIBRARY).read_bytes()
    (directory / LIBRARY).unlink()
    (directory / LIBRARY).write_bytes(data[:18] + b"\xf3\x00" + data[20:])
    manifest = read_manifest((directory / MANIFEST).read_bytes(), "test")
    files = {**manifest.files, LIBRARY: FileEntry(sha256=digest_file(directory / LIBRARY), size=len(data))}
    (directory / MANIFEST).unlink()
    (directory / MANIFEST).write_text(manifest.model_copy(update={"files": files}).sealed().model_dump_json())
    done = run(runner, "--package", directory)
    assert (done.returncode, done.stderr) == (
        3,
        f"error: {directory}: mod.so does not load: it is code for RISC-V\n"
        "  compile for this device: the target's mtriple and mcpu, and cc that links for it\n",
    )


def wrong_inputs(directory: Path) -> dict[str, tuple[Path, str]]:
    compressed, columns = directory / "compressed.npz", directory / "columns.npz"
    np.savez_compressed(compressed, **{"input/x/00000": image()})
    np.savez(columns, **{"input/x/00000": np.asfortranarray(image())})
    cut = inputs_file(directory / "cut.npz", image())
    cut.write_bytes(cut.read_bytes()[:-30])
    flipped = inputs_file(directory / "flipped.npz", image())
    flipped.write_bytes(flipped.read_bytes().replace(image().tobytes()[:8], bytes(8)))
    text = directory / "text.npz"
    text.write_text("no archive")
    takes = "the package takes float32[1, 3, 8, 8]"
    return {
        "shape": (inputs_file(directory / "shape.npz", image()[..., :7]), f"inputs: input 'x' is float32[1, 3, 8, 7], {takes}"),
        "rank": (inputs_file(directory / "rank.npz", image()[0]), f"inputs: input 'x' is float32[3, 8, 8], {takes}"),
        "type": (inputs_file(directory / "type.npz", image().astype("float64")), f"inputs: input 'x' is float64[1, 3, 8, 8], {takes}"),
        "other type": (inputs_file(directory / "complex.npz", image().astype("complex64")), "has numpy's type '<c8', the package takes float32"),
        "name": (inputs_file(directory / "name.npz", image(), name="z"), "inputs: sample 0 lacks input 'x'"),
        "compressed": (compressed, "'input/x/00000.npy' is compressed\n  write it with numpy.savez"),
        "columns": (columns, "input/x/00000.npy: is stored column by column"),
        "cut": (cut, "cut.npz: is no .npz file, or truncated"),
        "flipped": (flipped, "flipped.npz: input/x/00000.npy is damaged"),
        "text": (text, "text.npz: is no .npz file, or truncated"),
        "missing": (directory / "missing.npz", "missing.npz: no such file"),
    }  # fmt: skip


def test_inputs_that_do_not_fit_are_named(runner: list[str], package: Path, tmp_path: Path):
    for what, (inputs, problem) in wrong_inputs(tmp_path).items():
        done = run(runner, "--package", package, "--inputs", inputs, "--outputs", tmp_path / "out.npz")
        assert done.returncode == 1 and problem in done.stderr and done.stdout == "", (what, done)
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") <= 2, what
    assert not list(tmp_path.glob("out.npz*"))


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        ('{"samples": 0}', "is not a request (samples must be 1 or more)"),
        ('{"samples": 1, "hurry": true}', "hurry is not known to this program"),
        ('{"samples": 1, "measurement": {"pace": 3}}', "measurement.pace is not known to this program"),
        ('{"samples": 1, "measurement": {"repeat": 0}}', "a number in measurement is too small"),
        ('{"samples": 1, "timed_steps": -1}', "is not a request (timed_steps must be 0 or more)"),
        ('{"samples": "many"}', "is not a request ("),
        ('{"samples": ', "is not a request ("),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    runner: list[str], package: Path, tmp_path: Path, request_text: str, problem: str
):
    request = request_file(tmp_path, request_text)
    done = run(runner, "--package", package, "--request", request, "--result", tmp_path / "result.json")
    assert done.returncode == 1 and done.stderr.startswith(f"error: {request}: {problem}"), done
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--package is missing"),
        (["--package"], "--package: a value is missing"),
        (["--pace", "3"], "--pace: no such option"),
        (["--package", "x", "--runs", "0"], "--runs: expected a whole number of 1 or more (got '0')"),
        (["--package", "x", "--min-duration", "long"], "--min-duration: expected a number of 0 or more (got 'long')"),
        (["--package", "x", "--dim", "8"], "--dim: expected NAME=N (got '8')"),
        (["--package", "x", "--request", "r"], "--request needs --result"),
        (["--package", "x", "--request", "r", "--result", "s", "--runs", "3"], "--runs: the request says that already"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(runner: list[str], arguments: list[str], problem: str):
    done = run(runner, *arguments)
    assert done.returncode == 2 and done.stderr.startswith(f"error: {problem}"), done


def test_a_device_that_is_not_there_is_named(runner: list[str], package: Path):
    done = run(runner, "--package", package, "--device", "hexagon")
    assert done.returncode == 3 and done.stderr.startswith("error: device 'hexagon': there is none"), done
    done = run(runner, "--package", package, "--device", "abacus")
    assert done.returncode == 1 and "no such kind of device: 'abacus'" in done.stderr


def test_a_result_that_cannot_be_written_is_a_device_error(runner: list[str], package: Path, tmp_path: Path):
    done = run(runner, "--package", package, "--runs", 1, "--result", tmp_path / "nowhere" / "result.json")
    assert (done.returncode, done.stderr) == (
        3, f"error: {tmp_path}/nowhere/result.json: cannot be written (No such file or directory)\n"
    )  # fmt: skip


def test_a_package_that_is_not_a_directory_is_named(runner: list[str], tmp_path: Path):
    (tmp_path / "package.tar").touch()
    assert "is a file, not an unpacked package" in run(runner, "--package", tmp_path / "package.tar").stderr
    assert "no such package" in run(runner, "--package", tmp_path / "nothing").stderr


@pytest.mark.long
def test_damaged_inputs_never_crash_the_runner(runner: list[str], package: Path, tmp_path: Path):
    chance = random.Random(0)
    whole = inputs_file(tmp_path / "in.npz", image()).read_bytes()
    for number in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged))
            if number % 3:
                damaged[at] ^= 1 << chance.randrange(8)
            else:
                del damaged[at : at + chance.randint(1, 30)]
        (tmp_path / "in.npz").write_bytes(damaged)
        done = run(runner, "--package", package, "--inputs", tmp_path / "in.npz", "--runs", 1, "--warmup", 0)
        # A bit in a time stamp changes nothing that counts.
        assert done.returncode in (0, 1) and done.stderr.count("\n") <= 2, bytes(damaged)
