"""Users' mistakes: a clear line for each, the right exit code, no incomplete files."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import Project, new_project

VARIANT = "results/digits/float32/cpu"


@pytest.fixture
def project(single: Project) -> Project:
    """A finished project of one variant."""
    return single


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> str:
    """The error line of a command, which contains all ``words``."""
    shown = done.stdout + done.stderr
    lines = [line.strip() for line in shown.splitlines() if line.strip().startswith("error: ")]
    assert len(lines) == 1, shown
    assert "Traceback" not in shown
    assert "Error in " not in shown  # Snakemake's own message
    assert "defect" not in shown, shown
    assert done.returncode == code, shown
    for word in words:
        assert word in shown, shown
    return lines[0]


def make_is_refused(project: Project, code: int, *words: str) -> str:
    """Like :func:`refused` for ``tvmake make``; no incomplete files are left."""
    line = refused(project.make(), code, *words)
    assert project.leftovers() == []
    return line


def import_is_refused(project: Project, options: dict[str, Any], *words: str) -> str:
    """Like :func:`refused` for the import stage only, with its four outputs."""
    outputs = [f"--{name}={name}.out" for name in ("module", "params", "signature", "source")]
    line = refused(project.run("tvmake", "step", "import", "--options", json.dumps(options), *outputs), 1, *words)
    assert list(project.directory.glob("*.out")) == project.leftovers() == []
    return line


def nothing_came_of(project: Project, model: str) -> bool:
    """Whether a model has no results."""
    return not [file for file in project.files(f"results/{model}/**/*") if not file.endswith(".snakemake_timestamp")]


# --- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "spoil", "problem"),
    [
        ("digits.onnx", lambda data: data[: len(data) // 2], "truncated"),
        ("digits.onnx", lambda _: b"", "is empty"),
        ("digits.onnx", lambda _: b"<!doctype html><html></html>" * 30, "is a web page"),
        ("digits.pt2", lambda data: data[: len(data) // 2], "is truncated"),
        ("digits.pt2", lambda _: b"", "is empty"),
        ("digits.pt2", lambda _: b"garbage" * 100, "is not a .pt2 archive"),
        ("bad.tflite", lambda _: b"", "is empty"),
        ("bad.tflite", lambda _: b"garbage" * 100, "is not a TFLite model"),
        ("bad.tflite", lambda _: b"\x1c\x00\x00\x00TFL3" + bytes(12), "bad.tflite"),
    ],
    ids=[
        "truncated-onnx", "empty-onnx", "page-onnx", "truncated-pt2", "empty-pt2", "garbage-pt2", "empty-tflite",
        "garbage-tflite", "truncated-tflite",
    ],
)  # fmt: skip
def test_a_damaged_model(tmp_path: Path, name: str, spoil: Callable[[bytes], bytes], problem: str):
    project = new_project(tmp_path / "project")
    file = project.directory / name
    file.write_bytes(spoil(file.read_bytes() if file.exists() else b""))
    line = import_is_refused(project, {"source": name}, problem)
    assert line.startswith(f"error: {name}: ")


def test_a_damaged_model_in_a_whole_run(project: Project):
    (project.directory / "damaged.onnx").write_bytes(b"garbage" * 100)
    project.edit("models", {"damaged": {"source": "damaged.onnx"}})
    make_is_refused(project, 1, "damaged.onnx: not an ONNX model", "log: logs/damaged/import.log")
    assert nothing_came_of(project, "damaged")


@pytest.mark.parametrize("targets", [(), ("results/digits/float32/cpu/mod.json",)])
def test_a_missing_model_and_a_missing_dataset_are_both_named(fresh: Project, targets: tuple[str, ...]):
    fresh.edit("models.digits.source", "nowhere.onnx")
    fresh.edit("models.digits.dataset.path", "nowhere.npz")
    done = fresh.make(*targets)
    assert done.returncode == 1
    assert done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert [re.sub(r":\d+:", ":", line) for line in errors] == [
        "error: tvmake.yaml: models.digits.source: no such file: nowhere.onnx",
        "error: tvmake.yaml: models.digits.dataset.path: no such file: nowhere.npz",
    ]
    assert not (fresh.directory / "results" / "digits").exists()


def save_model(file: Path, nodes: list[onnx.NodeProto], *domains: str) -> None:
    """A model of float32[1, 4] → float32[1, 4]."""
    specs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", specs[:1], specs[1:])
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)


def test_every_unsupported_operator_is_listed_with_its_count(project: Project):
    nodes = [
        helper.make_node("Wave", ["x"], ["a"], domain="com.acme"),
        helper.make_node("Wave", ["a"], ["b"], domain="com.acme"),
        helper.make_node("Glow", ["b"], ["c"], domain="com.acme"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    save_model(project.directory / "acme.onnx", nodes, "com.acme")
    import_is_refused(project, {"source": "acme.onnx"}, "com.acme::Wave (2×)", "com.acme::Glow (1×)")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"photo": {"shape": [1, 1, 8, 8]}}, ("no input 'photo'", "image")),
        ({"image": {"shape": [1, 8, 8]}}, ("input 'image' has 4 axes, not 3",)),
        ({"image": {"shape": [1, 1, 9, 9]}}, ("axis 2 of input 'image' is 8, not 9",)),
        ({"image": {"dtype": "int64"}}, ("input 'image' is float32, not int64",)),
        ({"image": {}, "mask": {"shape": [1]}}, ("no input 'mask'",)),
    ],
    ids=["unknown", "rank", "size", "dtype", "extra"],
)
def test_inputs_that_the_model_does_not_have(tmp_path: Path, inputs: dict[str, Any], words: tuple[str, ...]):
    project = new_project(tmp_path / "project")
    import_is_refused(project, {"source": "digits.onnx", "inputs": inputs}, *words)


def test_a_factory_that_nobody_said_to_trust(project: Project):
    (project.directory / "factory.py").write_text("raise SystemExit('this ran')\n")
    project.edit("models", {"made": {"source": "factory:network"}})
    done = project.make()
    refused(done, 1, "trusted: true")
    assert "this ran" not in done.stderr


# --- config ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("models.digits.sourc", "x", ("tvmake.yaml:", "models.digits.sourc: unknown key", "did you mean 'source'?")),
        (
            "targets.phone",
            {"tag": "qcom/adreno-opencl-textures"},
            ("targets.phone.tag", "did you mean 'qcom/adreno-opencl-texture'?"),
        ),
        ("targets.cpu.device", "phone", ("targets.cpu.device", "'phone'")),
        ("targets.cpu.mcpu", "skylak", ("targets.cpu.mcpu", "'skylak'", "did you mean 'skylake'?")),
        ("models.digits.source", "model.keras", ("models.digits",)),
        ("transform.passes", [{"use": "nowhere:nothing"}], ("nowhere.py",)),
    ],
)
def test_a_mistake_in_the_config(project: Project, key: str, value: Any, words: tuple[str, ...]):
    project.edit(key, value)
    make_is_refused(project, 1, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: [a\n  b: }\n", ("tvmake.yaml:2", "not valid YAML")),
        ("- models\n", ("expected a mapping",)),
        ("models: {}\nmodels: {}\n", ("tvmake.yaml:2", "is set twice")),
    ],
    ids=["broken", "list", "twice"],
)
def test_a_config_that_is_not_one(project: Project, text: str, words: tuple[str, ...]):
    (project.directory / "tvmake.yaml").write_text(text)
    make_is_refused(project, 1, *words)


def test_no_config_at_all(project: Project):
    (project.directory / "tvmake.yaml").unlink()
    make_is_refused(project, 1, "no tvmake.yaml here", "tvmake init")


def test_plain_snakemake_names_the_mistake_too(project: Project):
    project.edit("models.digits.sourc", "x")
    done = project.run(*snakemake("--dry-run"))
    assert done.returncode == 1
    assert "models.digits.sourc: unknown key" in done.stdout + done.stderr


# --- datasets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"images": np.zeros((4, 1, 9, 9), "uint8"), "labels": np.zeros(4, "int64")},
            ("data.npz", "[1, 9, 9]", "[1, 8, 8]"),
        ),
        ({"images": np.zeros((4, 1, 8, 8), "uint8"), "labels": np.zeros(3, "int64")}, ("data.npz", "labels")),
    ],
    ids=["shape", "labels"],
)
def test_a_dataset_that_does_not_fit_the_model(project: Project, arrays: dict[str, Any], words: tuple[str, ...]):
    with np.load(project.directory / "digits-test.npz") as original:
        names = original.files
    images, labels = sorted(names, key=lambda name: "label" in name or name == "y")
    np.savez(project.directory / "data.npz", **{images: arrays["images"], labels: arrays["labels"]})
    project.edit("models.digits.dataset.path", "data.npz")
    make_is_refused(project, 1, *words)


# --- passes ---------------------------------------------------------------------------------------------------------

NAN_PASS = """
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

@mutator
class LogOfNegative(PyExprMutator):
    def visit_call_(self, call):
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.nn.relu":
            return call
        below = relax.op.subtract(relax.op.negative(relax.op.abs(call.args[0])), relax.const(1.0, "float32"))
        return self.builder_.normalize(relax.op.log(below))

def nan():
    def rewrite(module):
        visitor = LogOfNegative(module)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                visitor.builder_.update_func(variable, visitor.visit_expr(function))
        return visitor.builder_.get()
    return rewrite

def broken():
    def rewrite(module):
        raise ValueError("I am broken")
    return rewrite
"""


def test_a_user_pass_that_raises_is_named_with_its_line(project: Project):
    (project.directory / "mine.py").write_text(NAN_PASS)
    project.edit("transform.passes", [{"use": "mine:broken", "at": "before_legalize"}])
    make_is_refused(project, 1, "pass mine:broken", "ValueError: I am broken", "mine.py:")


def test_nan_where_the_reference_has_none_fails_with_the_figures_kept(project: Project):
    (project.directory / "mine.py").write_text(NAN_PASS)
    project.edit("transform.passes", [{"use": "mine:nan", "at": "before_legalize"}])
    done = project.make()
    assert done.returncode == 4, done.stderr
    assert "fail" in done.stdout
    assert "Traceback" not in done.stderr
    row = project.result("results/summary.json")["rows"][0]
    assert row["verdict"] == "fail"
    report = project.result(f"{VARIANT}/numerics.json")["report"]
    assert not report["passed"] and report["missed"]
    assert (project.directory / VARIANT / "latency.json").is_file()


def test_missed_goals_exit_with_4_and_the_summary(project: Project):
    project.edit("models.digits.goals", {"cosine": 1.0, "rtol": 0.0, "atol": 0.0})
    done = project.make()
    assert done.returncode == 4, done.stderr
    assert done.stdout.startswith("model ")
    assert "missed" in done.stdout
    assert project.make().returncode == 4  # with the same report


# --- commands -------------------------------------------------------------------------------------------------------


def test_a_target_that_nothing_makes(project: Project):
    done = project.make("results/nothing.txt")
    refused(done, 2, "results/nothing.txt: no job makes this", "tvmake check --files")


def test_an_option_that_nobody_knows(project: Project):
    line = refused(project.make("--nosuch"), 2, "--nosuch")
    assert "unrecognized arguments" in line


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        (("--resources", "gpus"), 2, ("has an invalid value", "check --resources;")),
        (("--set-threads", "build"), 2, ("RULE=THREADS pairs", "check --set-threads;")),
        (("--jobs", "many"), 2, ("must be integer", "check --jobs;")),
        (("--shadow-prefix", "/proc/x"), 3, ("/proc/x: cannot be used (No such file or directory)",)),
        (("-C", "elsewhere"), 2, ("-C: is an option that tvmake passes to snakemake itself", "--directory runs in another directory")),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)  # fmt: skip
def test_an_option_of_snakemakes_with_a_value_that_is_none(
    project: Project, option: tuple[str, ...], code: int, words: tuple[str, ...]
):
    refused(project.make("--dry-run", *option), code, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [("{not json", "Invalid JSON"), ('{"device": 1}', "device"), ("[]", "--options")],
    ids=["json", "type", "list"],
)
def test_options_of_a_step_that_are_wrong(project: Project, options: str, words: str):
    done = project.run(
        "tvmake", "step", "deploy", f"{VARIANT}/package.tar", "--options", options, "--receipt", "receipt.json"
    )
    refused(done, 2, words)
    assert not (project.directory / "receipt.json").exists()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: data.replace(b"\x7fELF", b"\x7fELG", 1), "mod.so is altered"),
        (lambda _: b"", "not a package"),
        (lambda _: b"garbage" * 200, "not a package"),
    ],
    ids=["truncated", "altered", "empty", "garbage"],
)
def test_a_damaged_package_is_not_deployed(project: Project, spoil: Callable[[bytes], bytes], problem: str):
    package = project.directory / "package.tar"
    data = (project.directory / VARIANT / "package.tar").read_bytes()
    package.write_bytes(spoil(data))
    assert package.read_bytes() != data
    done = project.run(
        "tvmake", "step", "deploy", "package.tar", "--options", '{"device_name": "local", "device": {}}',
        "--receipt", "receipt.json",
    )  # fmt: skip
    refused(done, 1, "package.tar", problem)
    assert not (project.directory / "receipt.json").exists()
    store = Path(project.environ()["TVMAKE_HOME"]) / "packages"
    assert not list(store.glob(".tvmake-*"))


def test_failures_of_only_the_machine_exit_with_3_and_mixed_ones_with_1(project: Project):
    project.edit("targets.other", {"kind": "llvm", "cc": "no-such-compiler-g++"})
    make_is_refused(project, 3, "no-such-compiler-g++")
    (project.directory / "broken.onnx").write_bytes(b"not a model")
    project.edit("models.broken", {"source": "broken.onnx"})
    assert project.make().returncode == 1
