"""`tvmake run` and `tvmake.open`: a package on inputs of yours."""

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tvmake
from tests.children import WITHOUT_TORCH
from tests.codegen.conftest import Transformed, dynamic_net, static_net  # noqa: F401  # fixtures
from tests.device.local.test_local import package, packed  # noqa: F401  # fixtures
from tests.native.devices import share_builds
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tvmake.cli import run as command
from tvmake.errors import InputError

pytestmark = pytest.mark.usefixtures("shared_servers")

X = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("float32")


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    share_builds(tmp_path / "home")
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Typed:
    """What a command line printed."""

    def __init__(self, capfd: pytest.CaptureFixture[str], package: Path):  # noqa: F811
        self.capfd, self.package = capfd, package

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = command(["run", str(self.package), *arguments])
        printed, errors = self.capfd.readouterr()
        return code, printed, errors

    def refused(self, *arguments: str) -> str:
        code, _, errors = self(*arguments)
        assert code != 0
        assert "Traceback" not in errors
        return errors


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str], package: Path) -> Typed:  # noqa: F811
    return Typed(capfd, package)


def outputs(file: str = "out.npz") -> dict[str, np.ndarray]:
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


def test_a_package_runs_without_options(typed: Typed):
    code, printed, _ = typed()
    assert code == 0
    assert "float32" in printed
    assert "first run" in printed


def test_arrays_come_from_files_and_outputs_go_to_one(typed: Typed, package: Path):  # noqa: F811
    np.savez("in.npz", x=X)
    np.save("in.npy", X.astype("float64"))
    assert typed("-i", "in.npz", "-o", "out.npz")[0] == 0
    named = outputs()
    assert typed("-i", "in.npy", "-o", "out.npz")[0] == 0
    assert typed("-i", "x=in.npy", "-o", "again.npz")[0] == 0
    for values in (outputs(), outputs("again.npz"), tvmake.open(package).run({"x": X})):
        assert values.keys() == named.keys()
        assert all(np.array_equal(values[name], named[name]) for name in named)


def test_images_are_prepared_as_requested(typed: Typed):
    pixels = (np.random.default_rng(0).random((8, 8, 3)) * 255).astype("uint8")
    Image.fromarray(pixels).save("photo.png")
    np.savez("in.npz", x=(pixels.astype("float32") / 255 - 0.5).transpose(2, 0, 1)[None])
    assert typed("-i", "photo.png", "-p", "mean=0.5", "-o", "photo.npz")[0] == 0
    assert typed("-i", "in.npz", "-o", "array.npz")[0] == 0
    for name, values in outputs("photo.npz").items():
        np.testing.assert_allclose(values, outputs("array.npz")[name], rtol=1e-4, atol=1e-5)


def test_inputs_are_filled_with_the_named_values(typed: Typed):
    np.savez("in.npz", x=np.ones_like(X))
    assert typed("--fill", "ones", "-o", "filled.npz")[0] == 0
    assert typed("-i", "in.npz", "-o", "given.npz")[0] == 0
    assert all(np.array_equal(values, outputs("given.npz")[name]) for name, values in outputs("filled.npz").items())


def test_inputs_that_are_not_finite_are_reported_whatever_the_package_computes_from_them(typed: Typed):
    holed = X.copy()
    holed[0, 0, 0, :2] = np.nan
    np.savez("in.npz", x=holed)
    code, _, errors = typed("-i", "in.npz")
    assert code == 0
    assert errors == "warning: input 'x' holds NaN (2 of 192 values are not finite)\n"
    np.savez("in.npz", x=np.where(np.isnan(holed), np.inf, holed))
    assert typed("-i", "in.npz", "--json")[2].startswith("warning: input 'x' holds infinity (2 of")
    np.savez("in.npz", x=X)
    assert typed("-i", "in.npz")[2] == ""


def test_runs_that_are_averaged_and_not_timed_are_refused(typed: Typed):
    assert typed.refused("--number", "3").startswith("error: --number 3: averages timed runs, but no run is timed\n")
    assert typed("--number", "3", "--repeat", "2")[0] == 0


def test_classes_times_and_kernels_are_printed(typed: Typed):
    Path("labels.txt").write_text("\n".join(f"class {number}" for number in range(10_000)))
    code, printed, _ = typed("--print-top", "2", "--labels", "labels.txt", "--repeat", "3", "--profile")
    assert code == 0
    assert "class " in printed
    assert "3 runs: median" in printed
    assert "kernel" in printed
    report = json.loads(typed("--print-top", "2", "--repeat", "3", "--profile", "--json")[1])
    assert report["latency"]["p50_ms"] > 0
    assert sum(row["share"] for row in report["kernels"]) == pytest.approx(1)
    assert not [row for row in report["kernels"] if row["kernel"].startswith("vm.")]
    (top,) = report["top"].values()
    assert top[0]["score"] >= top[1]["score"]


def test_classes_of_many_rows_are_printed_for_the_first_ones(
    capfd: pytest.CaptureFixture[str],
    dynamic_net: Transformed,  # noqa: F811
    tmp_path: Path,
):
    file = str(packed(dynamic_net, tmp_path))
    ending = "  and 2 samples more, of [18, 5]; --output FILE.npz writes all values"
    for size, endings in (("m=2", []), ("m=3", [ending])):
        assert command(["run", file, "--dim", size, "--print-top", "1"]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert [line for line in lines if "more" in line] == endings
        assert len([line for line in lines if line.startswith("  sample ")]) == (16 if endings else 12)
    assert command(["run", file, "--dim", "m=3", "--print-top", "1", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["samples_left_out"] == {"y": 2}


MISTAKES = {
    "another shape": (["-i", "narrow.npz"], "is float32 [1, 3, 8, 7], and the package takes 'x' float32 [1, 3, 8, 8]"),
    "another type": (["-i", "words.npy"], "and the package takes 'x' float32"),
    "an unknown input": (["-i", "y.npz"], "the package has no input 'y'"),
    "an unknown name": (["-i", "y=in.npy"], "y: the package has no such input"),
    "a name for an archive": (["-i", "x=y.npz"], "use it without 'x='"),
    "no file": (["-i", "none.npz"], "none.npz: no such file"),
    "a damaged file": (["-i", "cut.npz"], "cut.npz: is cut off"),
    "an archive that unpacks to too much": (["-i", "bomb.npz"], "bomb.npz: cannot be read: it unpacks to"),
    "an array that is mostly holes": (["-i", "holes.npy"], "holes.npy: cannot be read: it is mostly holes"),
    "an archive by an array's name": (["-i", "archive.npy"], "archive.npy: cannot be read: the magic string"),
    "another kind of file": (["-i", "labels.txt"], "labels.txt: not a file of inputs"),
    "two files for one input": (["-i", "in.npy", "-i", "in.npy"], "all inputs have files already"),
    "two files for one by its name": (
        ["-i", "x=in.npy", "-i", "x=in.npy"],
        "--input 'x=in.npy': input 'x' has another file already",
    ),
    "a file and an image for one": (["-i", "in.npy", "-i", "x=photo.png"], "input 'x' has another file already"),
    "a dimension of another network": (
        ["--dim", "n=3"],
        "--dim n: the package has no such dynamic dimension\n  all its shapes are fixed",
    ),
    "a dimension without one size": (["--dim", "n=1..3"], "expected NAME=SIZE\n  for example: --dim batch=8"),
    "a device": (["-i", "/dev/zero"], "/dev/zero: is not a plain file"),
    "a misspelt key": (["-p", "rezise=3"], "--preprocess rezise: unknown key\n  did you mean 'resize'?"),
    "an image of unknown format": (["-i", "cut.png"], "cut.png: not a readable image (of no kind that is known)"),
    "two images for one": (["-i", "photo.png", "-i", "photo.png"], "2 images for 'x' float32 [1, 3, 8, 8]"),
    "an image of another size": (["-i", "photo.png"], "--preprocess resize="),
    "a damaged image": (["-i", "cut.png"], "use an image that an image viewer shows"),
    "an input without a file": (["-i", "x="], "--input 'x=': has no input, or no file"),
    "a file without an input": (["-i", "=in.npy"], "--input '=in.npy': has no input, or no file"),
    "an address": (["-i", "https://a/b=c.png"], "https://a/b=c.png: no such file"),
    "a text by an archive's name": (["-i", "text.npz"], "text.npz: cannot be read: it has no arrays"),
    "a directory": (["-i", "."], ".: is a directory"),
    "an archive of objects": (["-i", "objects.npz"], "objects.npz: cannot be read"),
    "an empty archive": (["-i", "empty.npz"], "empty.npz: has no arrays"),
    "a device without a host": (["-D", "ssh"], "write it as ssh:[USER@]HOST[:PORT]"),
    "a device that is not there": (["-D", "rpc:127.0.0.1:9/none"], "no tracker at 127.0.0.1:9"),
    "an unknown key": (["-p", "nonsense=3"], "known keys here: color, resize"),
    "no key": (["-p", "resize"], "for example: --preprocess resize=256"),
    "another suffix": (["-o", "out.txt"], "name it out.npz"),
    "too few labels": (["--labels", "labels.txt"], "labels.txt: has 1 label for the 6 classes of '"),
    "no labels": (["--labels", "none.txt"], "none.txt: no such file"),
    "no device": (["-d", "phone"], "no device 'phone'"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with files for inputs, most of them wrong."""
    directory = tmp_path_factory.mktemp("files")
    np.savez(directory / "narrow.npz", x=X[..., :7])
    np.savez(directory / "y.npz", y=X)
    np.save(directory / "in.npy", X)
    np.save(directory / "words.npy", np.array(["word"]))
    archive = (directory / "y.npz").read_bytes()
    (directory / "cut.npz").write_bytes(archive[:100])
    np.savez(directory / "objects.npz", x=np.array([{}], dtype=object))
    np.savez(directory / "empty.npz")
    np.savez_compressed(directory / "bomb.npz", x=np.zeros(80 << 20, np.uint8))
    (directory / "archive.npy").write_bytes(archive)
    with (directory / "holes.npy").open("wb") as holes:
        np.lib.format.write_array_header_1_0(holes, {"descr": "<f4", "fortran_order": False, "shape": (1 << 30,)})
        holes.truncate(4 << 30)
    (directory / "text.npz").write_text("no archive")
    (directory / "cut.png").write_bytes(b"no image")
    (directory / "labels.txt").write_text("only one\n")
    Image.new("RGB", (30, 20)).save(directory / "photo.png")
    return directory


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_what_the_package_expects(
    arguments: list[str], words: str, typed: Typed, files: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(files)
    assert words in typed.refused(*arguments)
    assert not list(files.glob("out*"))


def test_other_files_than_packages_are_refused(capfd: pytest.CaptureFixture[str]):
    Path("text.tar").write_text("no package")
    assert command(["run", "text.tar"]) == 1
    assert command(["run", "none.tar"]) == 1
    os.mkfifo("pipe.tar")
    assert command(["run", "pipe.tar"]) == 1
    Path("cpu").mkdir()
    assert command(["run", "cpu"]) == 1
    Path("cpu/package.tar").write_text("one")
    Path("results/net/float32/cpu").mkdir(parents=True)
    Path("results/net/float32/cpu/package.tar").write_text("one")
    assert command(["run", "net/float32/cpu"]) == 1
    Path("net.onnx").write_text("a model")
    assert command(["run", "net.onnx"]) == 1
    assert command(["verify", "net.onnx"]) == 1
    Path("my.yaml").write_text("models: {}")
    assert command(["run", "my.yaml"]) == command(["verify", "my.yaml"]) == 1
    Path("mod.so").write_bytes(b"\x7fELF")
    assert command(["run", "mod.so"]) == 1
    assert command(["run", "cpu"]) == 1
    Path("circle.tar").symlink_to("circle.tar")
    assert command(["run", "circle.tar"]) == 1
    errors = capfd.readouterr().err
    assert "text.tar: not a package" in errors
    assert "circle.tar: is a link to a missing file" in errors
    assert "none.tar: no such package" in errors
    assert "net/float32/cpu: no such package\n  name results/net/float32/cpu/package.tar" in errors
    assert errors.count("my.yaml: is a config, not a package\n  `tvmake make -c my.yaml` makes the packages") == 2
    assert errors.count("net.onnx: is a model, not a package\n  `tvmake compile net.onnx` makes a package of it") == 2
    assert "mod.so: is a part of a package\n  name the package.tar that it came in" in errors
    assert "pipe.tar: is a pipe, a socket or a device, not a package" in errors
    assert "cpu: is a directory, not a package\n  name a package.tar" in errors
    assert "cpu: is a directory, not a package\n  name cpu/package.tar" in errors


def test_an_open_package_says_what_it_takes_and_refuses_what_it_does_not(package: Path):  # noqa: F811
    opened = tvmake.open(package)
    assert "'x' float32 [1, 3, 8, 8]" in repr(opened)
    assert "float32" in opened._repr_html_()
    assert [spec.name for spec in opened.inputs] == ["x"]
    first = opened.run(X)
    second = opened.run({"x": X * 2})
    assert not all(np.array_equal(first[name], second[name]) for name in first)
    assert opened.run(fill="zeros").keys() == first.keys()
    with pytest.raises(InputError, match="no values for 'x'"):
        opened.run()
    with pytest.raises(InputError, match="no such input"):
        opened.run({"y": X})
    with pytest.raises(InputError, match="the package takes 'x' float32"):
        opened.run(X[:, :2])


REFUSED = {
    "a fill": (lambda opened, _: opened.run(fill="one"), "fill: expected one of random, zeros, ones (got 'one')"),
    "numbers too large": (lambda opened, _: opened.run(X.astype("float64") * 1e300), "which float32 cannot represent"),
    "lists of several lengths": (lambda opened, _: opened.run([[1], [1, 2]]), "input 'x': cannot become an array"),
    "no repeats": (lambda opened, _: opened.benchmark(repeat=0), "repeat: expected at least 1 (got 0)"),
    "half a repeat": (lambda opened, _: opened.benchmark(repeat=2.5), "repeat: expected a whole number (got 2.5)"),
    "less than no warmup": (lambda opened, _: opened.benchmark(warmup=-1), "warmup: expected at least 0 (got -1)"),
    "a truth for a number": (
        lambda opened, _: opened.benchmark(repeat=True),
        "repeat: expected a whole number (got 'True')",
    ),
    "the name of an image": (lambda opened, _: opened.run("cat.png"), "input 'x': expected an array (got 'cat.png')"),
    "no reference": (
        lambda opened, _: opened.validate(None),
        "reference: a NoneType is neither a model nor arrays\n  use tvmake.load(…), or the expected outputs",
    ),
    "the name of a model": (
        lambda opened, _: opened.validate("net.onnx"),
        "reference: a str is neither a model nor arrays\n  use tvmake.load('net.onnx')",
    ),
    "inputs beside a model": (
        lambda opened, _: opened.validate(_Source(), X),
        "inputs: a source model is compared on random inputs\n  leave them out",
    ),
    "no threads": (lambda _, file: tvmake.open(file, threads=0), "threads: expected at least 1 (got 0)"),
    "an unknown goal": (
        lambda opened, _: opened.validate(X, X, goals={"sqnr": 3}),
        "validation.goals.sqnr: unknown key\n  did you mean 'sqnr_db'?",
    ),
    "no samples": (lambda opened, _: opened.validate(_Source(), samples=0), "samples: expected at least 1 (got 0)"),
    "a seed": (lambda opened, _: opened.validate(_Source(), seed=-1), "seed: expected at least 0 (got -1)"),
}


class _Source:
    directory = Path()

    def import_options(self) -> None:
        raise AssertionError("the other arguments come first")


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_an_argument_that_makes_no_sense_is_named(call, words: str, package: Path):  # noqa: F811
    with pytest.raises(InputError) as refused:
        call(tvmake.open(package), package)
    assert words in str(refused.value)


def test_infinite_inputs_are_passed_on(package: Path):  # noqa: F811
    tvmake.open(package).run(np.full(X.shape, np.inf))


def test_a_percentile_is_between_0_and_100():
    from tvmake.benchmark.statistics import latency_statistics
    from tvmake.running.package import Benchmark

    timed = Benchmark((1.0, 2.0), latency_statistics([1.0, 2.0]), 1.0, 1.0)
    assert timed.percentile(50) == 1.5
    for wrong in (101, "median", float("nan")):
        with pytest.raises(InputError, match="percent: expected"):
            timed.percentile(wrong)


def test_threads_that_share_a_package_take_turns(package: Path):  # noqa: F811
    from concurrent.futures import ThreadPoolExecutor

    opened = tvmake.open(package)
    wanted = [next(iter(opened.run(X * factor).values())) for factor in range(4)]

    def repeat(factor: int) -> bool:
        return all(np.array_equal(next(iter(opened.run(X * factor).values())), wanted[factor]) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(repeat, range(4)))


THREADS = """
import sys, threading
import numpy as np
import tvm, tvmake
from tvm.script import tirx as T

found = set()

@tvm.register_global_func("probe.thread")
def note():
    found.add(threading.get_native_id())

@T.prim_func
def probe(a: T.handle):
    A = T.match_buffer(a, (64,), "float32")
    for i in T.parallel(64):
        A[i] = T.float32(1)
        T.evaluate(T.call_packed("probe.thread"))

kernel = tvm.compile(tvm.IRModule({"probe": probe}), target="llvm")
one, all_of_them = tvmake.open(sys.argv[1], threads=1), tvmake.open(sys.argv[1])
used = []

def run(package):
    package.run(fill="zeros")
    found.clear()
    kernel["probe"](tvm.runtime.tensor(np.zeros(64, "float32")))
    used.append(len(found))

for package in (one, all_of_them, one):
    run(package)
    thread = threading.Thread(target=run, args=(package,))
    thread.start()
    thread.join()
print(used)
"""


def test_a_package_keeps_to_its_threads_whichever_thread_runs_it(package: Path, tmp_path: Path):  # noqa: F811
    script = tmp_path / "script.py"  # TVMScript reads the source of a function
    script.write_text(WITHOUT_TORCH + THREADS)
    done = subprocess.run(
        [sys.executable, script, package],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TVM_NUM_THREADS": "2"},
    )
    assert done.stdout.strip() == "[1, 1, 2, 2, 1, 1]"


def test_a_copy_is_opened_again_instead(package: Path):  # noqa: F811
    opened = tvmake.open(package)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"open it again: tvmake\.open"):
            copied(opened)


def test_importing_tvmake_loads_neither_tvm_nor_numpy():
    code = "import sys, tvmake; assert callable(tvmake.open); print(sorted({'tvm', 'numpy', 'typer'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
