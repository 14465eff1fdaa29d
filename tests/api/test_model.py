"""`tvmake.load`: models become packages in Python as they do on the command line, and nothing is made twice."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import onnx
import pytest
import yaml

import tvmake
from tests.process import shared
from tests.workflow.project import ROOT, model_project
from tvmake.api.model import _target_text
from tvmake.artifact.package import inspect
from tvmake.errors import InputError
from tvmake.process.forkserver.client import DIRECTORY

TVMAKE = str(Path(sys.executable).with_name("tvmake"))
FAST = {
    "tuning": {
        "rounds": 1,
        "batch": 2,
        "population": 16,
        "cost_model": "random",
        "measure": {"repeat": 1, "min_repeat_ms": 0},
    }
}
HEAVY = {"numpy", "tvm", "torch", "onnx", "onnxruntime", "pydantic", "yaml", "snakemake", "typer", "pandas"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the digits have been compiled for this machine, for copies."""
    project = model_project(tmp_path_factory.mktemp("compiled") / "work")
    done = project.run("tvmake", "compile", "digits.onnx", "-o", "first.tar")
    assert done.returncode == 0, done.stderr
    (project.directory / "first.tar").unlink()
    return project.directory


@pytest.fixture
def resumed(compiled: Path, workspace: Path) -> Path:
    """The working directory, in which the digits have been compiled before."""
    return shutil.copytree(compiled, workspace, symlinks=True, dirs_exist_ok=True)


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the digits."""
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(DIRECTORY, shared.directory())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # a notebook's kernel has no environment activated
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    shutil.copy(ROOT / "resources/digits.onnx", "digits.onnx")
    return tmp_path / "work"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def image() -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 16, (1, 1, 8, 8)).astype("float32")


def test_a_file_becomes_a_package_that_runs_is_timed_and_is_right(capfd: pytest.CaptureFixture[str]):
    model = tvmake.load("digits.onnx")
    package = model.compile(output="mine.tar")
    assert "✓ build digits float32 native" in capfd.readouterr().err
    assert package.file == Path("mine.tar")
    (scores,) = package.run({"image": image()}).values()
    assert scores.shape == (1, 10)
    assert np.array_equal(scores, *package.run(image()).values())

    report = package.validate(model, samples=3)
    assert report.passed and report.samples == 3 and report.overall is not None
    assert report.overall.sqnr_db > 60
    assert package.validate({"logits": scores}, image()).passed
    assert not package.validate(scores + 1, image()).passed

    timed = package.benchmark(repeat=5, profile=True)
    assert len(timed.samples_ms) == 5 and timed.kernels
    assert timed.percentile(0) == min(timed.samples_ms) <= timed.median_ms <= timed.percentile(100)
    for shown in (model, package, timed):
        assert shown._repr_html_().startswith("<table>")


def test_threads_that_compile_one_model_at_once_get_what_each_of_them_asked_for():
    model = tvmake.load("digits.onnx")
    requests = [("float32", 3), ("float16", 3), ("float32", 0)]

    def compile_model(request: tuple[str, int]) -> tvmake.Package:
        precision, level = request
        file = f"{precision}-{level}.tar"
        return model.compile(precision=precision, options={"build.opt_level": level}, output=file, shows_progress=False)

    with ThreadPoolExecutor(len(requests)) as threads:
        packages = list(threads.map(compile_model, requests))
    precision, level = requests[0]
    alone = model.compile(precision=precision, options={"build.opt_level": level})
    assert digest(alone.file) == digest(packages[0].file)
    assert [inspect(package.file).precision for package in packages] == [precision for precision, _ in requests]
    assert digest(packages[0].file) != digest(packages[2].file)


@pytest.mark.usefixtures("resumed")
def test_a_package_is_timed_from_whatever_directory_the_process_works_in(tmp_path: Path, monkeypatch):
    package = tvmake.load("digits.onnx").compile(
        {"kind": "llvm", "mcpu": "native"}, output="mine.tar", shows_progress=False
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert package.run(image()).keys() == {"logits"}
    assert package.benchmark(repeat=2).samples_ms


@pytest.mark.usefixtures("resumed")
@pytest.mark.parametrize("is_of_config", [False, True])
def test_a_model_stays_where_it_was_loaded(workspace: Path, tmp_path: Path, monkeypatch, is_of_config: bool):
    if is_of_config:
        values = {
            "models": {"digits": {"source": "digits.onnx"}},
            "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
        }
        Path("tvmake.yaml").write_text(yaml.safe_dump(values))
    model = tvmake.load("digits" if is_of_config else "digits.onnx")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    package = model.compile(shows_progress=False)
    assert package.file.is_relative_to(workspace)
    assert package.validate(model).passed
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_command_line_makes_the_same_bytes_and_nothing_is_made_twice(capfd: pytest.CaptureFixture[str]):
    made = tvmake.load("digits.onnx").compile(shows_progress=False)
    assert capfd.readouterr().err == ""
    command = [TVMAKE, "compile", "digits.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "✓" not in done.stderr
    assert digest(Path("digits.tar")) == digest(made.file)


def test_a_model_of_a_config_is_made_among_its_results(workspace: Path):
    values = {
        "models": {"digits": {"source": "digits.onnx"}},
        "precisions": ["float32", "float16"],
        "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
    }
    Path("tvmake.yaml").write_text(yaml.safe_dump(values))
    package = tvmake.load("digits").compile(precision="float16")
    assert package.file == workspace / "results/digits/float16/cpu/package.tar"
    assert package.validate(tvmake.load("digits")).passed
    before = digest(package.file)
    subprocess.run([TVMAKE, "make", str(package.file), "--forceall"], check=True, capture_output=True)
    assert digest(package.file) == before
    with pytest.raises(InputError, match=r"has no variant digits/float32/phone"):
        tvmake.load("digits", config="tvmake.yaml").compile("phone", "float32")
    with pytest.raises(InputError, match="has no model 'dogits'"):
        tvmake.load("dogits")


def test_tuning_says_what_it_found_and_the_package_uses_it():
    model = tvmake.load("digits.onnx")
    tuning = model.tune(trials=4, options=FAST)
    tuned = [kernel for kernel in tuning.kernels if kernel.latency_ms]
    assert tuning.trials >= 4 and tuned
    assert tuned[0].name in tuning._repr_html_()
    package = model.compile(options=FAST)
    assert package.manifest.coverage.tuned == len(tuned)
    assert package.validate(model, samples=2).passed


def test_an_onnx_model_in_memory_is_a_model():
    proto = onnx.load("digits.onnx")
    model = tvmake.load(proto, name="mine")
    assert model.name == "mine" and model.source.endswith(".onnx")
    assert tvmake.load(proto, name="mine").source == model.source
    assert onnx.load(model.source) == proto


def test_a_torch_module_is_a_model_and_the_same_one_is_the_same_file():
    torch = pytest.importorskip("torch", reason="pip install 'tvmake[torch]'")

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x) / 2

    example = torch.ones(2, 4)
    module = Half().train()
    model = tvmake.load(module, example)
    assert module.training
    assert tvmake.load(Half(), (example,)).source == model.source
    other = Half()
    with torch.no_grad():
        other.inner.bias += 1
    assert tvmake.load(other, example).source != model.source
    package = model.compile(shows_progress=False)
    (got,) = package.run(example.numpy()).values()
    assert np.allclose(got, module.eval()(example).detach().numpy(), atol=1e-5)
    with pytest.raises(InputError, match="needs example inputs"):
        tvmake.load(module)


def test_a_module_that_no_file_can_hold_is_refused_before_one_is_written():
    torch = pytest.importorskip("torch", reason="pip install 'tvmake[torch]'")

    class Sparse(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", torch.eye(2).to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.adjacency, x)

    class Greeting(torch.nn.Module):
        def forward(self, x):
            return {"x": x * 2, "text": "hello"}

    for module, problem in ((Sparse(), "'adjacency' is a sparse tensor"), (Greeting(), "output 'text' is 'hello'")):
        with pytest.raises(InputError, match=problem):
            tvmake.load(module, torch.ones(2, 4))


def of_a_config() -> tvmake.Model:
    Path("tvmake.yaml").write_text("models: {digits: {source: digits.onnx}}\n")
    return tvmake.load("digits")


MISTAKES = {
    "no file": (lambda: tvmake.load("none.onnx"), "none.onnx: no such file"),
    "no model": (lambda: tvmake.load(3), "an object of type int is not a model that tvmake reads"),
    "a function of jax": (lambda: tvmake.load(jax.jit(lambda x: x)), "write it as StableHLO and load that file"),
    "no shapes": (lambda: tvmake.load("digits.onnx", (1, 2)), "expected a mapping by name"),
    "no target": (
        lambda: tvmake.load("digits.onnx").compile("adreno-730-textur"),
        "did you mean 'adreno-730-texture'?",
    ),
    "no precision": (lambda: tvmake.load("digits.onnx").compile(precision="float8"), "expected one of float32"),
    "no option": (lambda: tvmake.load("digits.onnx").compile(options={"builds": {}}), "did you mean 'build'?"),
    "no directory": (lambda: tvmake.load("digits.onnx").compile(output="none/m.tar"), "there is no directory 'none'"),
    "the model itself": (lambda: tvmake.load("digits.onnx").compile(output="digits.onnx"), "and is not a package"),
    "a number for a file": (
        lambda: tvmake.load("digits.onnx").compile(output=3),
        "output: expected the path of the package to write (got a int)",
    ),
    "less than no trials": (lambda: tvmake.load("digits.onnx").compile(tune=-1), "tune: expected at least 0 (got -1)"),
    "no text for a target": (
        lambda: tvmake.load("digits.onnx").compile(""),
        "target: a target is missing in ''\n  name one",
    ),
    "keys of no target": (lambda: tvmake.load("digits.onnx").compile({"mcpu": "zen5"}), "names no kind"),
    "no path of a model": (lambda: tvmake.load(""), "load: expected the path of a model's file (got an empty text)"),
    "no path of a package": (lambda: tvmake.open(None), "open: expected the path of a package.tar (got a NoneType)"),
    "a model for a package": (
        lambda: tvmake.open("digits.onnx"),
        "digits.onnx: is a model, not a package\n  `tvmake compile",
    ),
    "no path of results": (lambda: tvmake.Results(b"results"), "Results: expected the path of a results directory"),
    "no name of a target": (lambda: tvmake.load("digits.onnx").compile(5), "target: expected a text (got 5)"),
    "no option below": (
        lambda: tvmake.load("digits.onnx").compile(options={"build": {"optlevel": 2}}),
        "options: build.optlevel: unknown key\n  did you mean 'opt_level'?",
    ),
    "no option, with dots": (
        lambda: tvmake.load("digits.onnx").compile(options={"build.opt_level": "high"}),
        "options: build.opt_level: expected a whole number (got 'high')",
    ),
    "no option of a config": (
        lambda: of_a_config().compile(options={"build": {"optlevel": 2}}),
        "options: build.optlevel: unknown key\n  did you mean 'opt_level'?",
    ),
    "no options": (lambda: tvmake.load("digits.onnx").compile(options=["build"]), "options: expected a mapping"),
    "a number in words": (lambda: tvmake.load("digits.onnx").tune(trials="many"), "trials: expected a whole number"),
    "no trials": (lambda: tvmake.load("digits.onnx").tune(trials=0), "expected at least 1"),
    "a truth for a number": (lambda: tvmake.load("digits.onnx").tune(trials=True), "trials: expected a whole number"),
    "a precision for a target": (
        lambda: tvmake.load("digits.onnx").compile("float16"),
        "target: 'float16' is a precision\n  write precision='float16'",
    ),
    "no package": (lambda: tvmake.open("none.tar"), "none.tar: no such package"),
}


@pytest.mark.parametrize(("mistake", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_an_error_with_a_remedy(mistake, words: str):
    with pytest.raises(InputError) as refused:
        mistake()
    assert words in str(refused.value)


def test_a_job_that_fails_is_an_error_with_its_remedy():
    Path("cut.onnx").write_bytes(Path("digits.onnx").read_bytes()[:2000])
    with pytest.raises(InputError) as refused:
        tvmake.load("cut.onnx").compile(shows_progress=False)
    assert refused.value.problem == "not an ONNX model, or a truncated one"
    assert "Download or copy the file again" in (refused.value.remedy or "")


def test_a_package_for_another_machine_can_be_made_and_looked_at():
    package = tvmake.load("digits.onnx").compile("adreno-730-texture", shows_progress=False)
    assert package.manifest.device_kind == "opencl"
    assert "image" in package._repr_html_()


@pytest.mark.usefixtures("resumed")
def test_a_package_that_was_made_again_is_not_timed_for_the_one_that_was_opened():
    model = tvmake.load("digits.onnx")
    first = model.compile(shows_progress=False)
    scores = first.run(image())
    model.compile(options={"build": {"opt_level": 2}}, shows_progress=False)
    assert all(np.array_equal(scores[name], found) for name, found in first.run(image()).items())
    with pytest.raises(InputError, match="has changed since it was opened"):
        first.benchmark()


def test_importing_tvmake_loads_no_library():
    code = f"import sys, tvmake; assert callable(tvmake.open); print(sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"load", "open", "Results", "Package", "Model"} <= set(dir(tvmake))
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        _ = tvmake.lode
    with pytest.raises(AttributeError, match=re.escape("'compile'; tvmake.load(model).compile() makes a package")):
        _ = tvmake.compile


@pytest.mark.parametrize(
    ("source", "options", "problem", "remedy"),
    [
        ("zoo:resnet81", {}, "zoo:resnet81: the zoo has no network 'resnet81'", "did you mean 'zoo:resnet18'?"),
        ("digits.npz", {}, "digits.npz: cannot tell the format of it", "copy or download the file again"),
        ("digits.onnx", {"inputs": {"image": 3}}, "inputs.image.shape: expected a list", ""),
        (
            "digits.onnx",
            {"inputs": {"image": (-1, 1, 8, 8)}},
            "inputs.image.shape[0]: expected at least 0 (got -1)",
            "",
        ),
        ("digits.onnx", {"name": "a/b"}, "models.a/b: expected a name", ""),
        ("digits.onnx", {"name": 3}, "name: expected a text (got 3)", ""),
        ("digits.onnx", {"config": 3}, "config: expected a text (got 3)", ""),
    ],
)
def test_what_is_not_a_model_is_refused_when_it_is_loaded_and_no_library_is(
    source: str, options: dict[str, object], problem: str, remedy: str
):
    Path("digits.npz").touch()
    script = "import sys, tvmake\ntry: tvmake.load({!r}, **{!r})\nfinally: print(sorted(sys.modules.keys() & {!r}))"
    heavy = HEAVY - {"pydantic", "yaml"}
    command = [sys.executable, "-c", script.format(source, options, heavy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    refused = done.stderr.rpartition("InputError: ")[2]
    assert problem in refused and remedy in refused, done.stderr
    assert done.stdout == "[]\n"


def test_extents_of_numpy_are_numbers_in_a_config():
    model = tvmake.load("digits.onnx", {"image": tuple(np.array([1, 1, 8, 8]))})
    assert model._keys == {"inputs": {"image": {"shape": [1, 1, 8, 8]}}}
    assert yaml.safe_dump(model._keys)
    assert tvmake.load("digits.onnx", {"image": np.zeros((1, 1, 8, 8))})._keys == model._keys, "an array has a shape"


def test_a_target_of_tvms_own_is_as_good_as_its_keys():
    from tvm.target import Target

    gpu = json.loads(_target_text(Target({"kind": "opencl"}, host={"kind": "llvm"})))
    assert (gpu["kind"], gpu["host"]["kind"]) == ("opencl", "llvm")
    given = Target({"kind": "llvm", "mcpu": "skylake"}, host={"kind": "llvm", "mcpu": "skylake"})
    assert tvmake.load("digits.onnx").compile(given, shows_progress=False).manifest.target["mcpu"] == "skylake"
