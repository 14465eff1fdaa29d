"""The stage that chooses precisions, on a small real network: measurements, choices, messages, and failures."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnxruntime.quantization import QuantType

from tests.frontend.onnx import models as onnx_models
from tests.process import shared
from tests.quantize.nets import quantized_dynamically
from tests.transform.nets import imported
from tvmake.artifact import stage_json
from tvmake.artifact.module_files import load_module, save_module
from tvmake.artifact.weights.tensors import save_params
from tvmake.benchmark.precision_choice import PrecisionChoice
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.calibrating import CalibrateRequest
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.config.target import TargetConfig
from tvmake.config.validation import Goals
from tvmake.process.forkserver.client import DIRECTORY
from tvmake.quantize.precision import LayerAssignment, LayerPrecision, PrecisionConfig
from tvmake.quantize.source.rounding import note_quantized_source
from tvmake.stages.choices.choose_precision import choose_precision
from tvmake.stages.choices.precision_search import trials
from tvmake.stages.model.calibrate import calibrate
from tvmake.storage.files import write_text
from tvmake.transform.options import TransformOptions, UserPass
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSetInfo, write_reference_set

AUTO = PrecisionConfig(base="auto", among=["float32", "int8"])
CPU = TargetConfig(kind="llvm", mcpu="x86-64-v3")
SAMPLES = 4


def network() -> onnx_models.onnx.ModelProto:
    """Two matmuls with weights, and one of two activations, which has no integer form: ``x`` [4, 32] to ``y`` [4, 4]."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["d"]),
        helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["d", "t"], ["y"]),
    ]
    weights = {f"w{number}": onnx_models.random(32, 32, seed=number) / 6 for number in (1, 2)}
    return onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [4, 32])}, ["y"], weights)


def computed(rows: np.ndarray) -> np.ndarray:
    first, second = (onnx_models.random(32, 32, seed=number) / 6 for number in (1, 2))
    found = np.maximum(rows @ first, 0) @ second
    return np.asarray(found @ found.T)


class Choosing:
    """The stage's files in a directory."""

    def __init__(self, directory: Path, source: onnx_models.onnx.ModelProto | None = None):
        self.directory = directory
        model = imported(source or network())
        self.inputs = [directory / name for name in ("model.json", "model.params", "signature.json")]
        save_module(note_quantized_source(model.module, 1, False), self.inputs[0])
        save_params(model.params, self.inputs[1])
        stage_json.save(model.signature, self.inputs[2])
        rows = [onnx_models.random(4, 32, seed=10 + number) for number in range(SAMPLES)]
        outputs = [onnx_models.runtime(source, [row])[0] if source else computed(row) for row in rows]
        samples = [ReferenceSample({"x": row}, {"y": y}, None) for row, y in zip(rows, outputs, strict=True)]
        info = ReferenceSetInfo(signature=model.signature, runtime="numpy", data="random", seed=0)
        self.reference = directory / "reference.npz"
        write_reference_set(self.reference, info, samples)
        self.calibration = directory / "calibration.json"
        calibrate(*self.inputs, CalibrateRequest(model="net", precision=AUTO), self.calibration)

    def run(
        self,
        *,
        frozen: Path | None = None,
        among: Sequence[LayerPrecision] = ("float32", "int8"),
        passes: Sequence[UserPass] = (),
        **goals: Any,
    ) -> PrecisionChoice:
        request = ChoosePrecisionRequest(
            model="net",
            precision=AUTO,
            among=list(among),
            transform=TransformOptions(passes=list(passes)),
            build=BuildRequest(model="net", precision="auto", target_name="cpu", target=CPU),
            goals=Goals(**goals),
        )
        written = [self.directory / "out" / file for file in ("m.json", "m.params", "s.json", "precision.json")]
        return choose_precision(
            *self.inputs, self.reference, request, *written, self.calibration, frozen, "net/auto/cpu"
        )

    @property
    def matmuls(self) -> list[str]:
        """The dtypes of the chosen network's matmuls."""
        text = load_module(self.directory / "out/m.json").script()
        return [line for line in text.splitlines() if "matmul" in line]


@pytest.fixture(scope="module", autouse=True)
def _shared_servers() -> Iterator[None]:
    """Fork the processes that run packages from servers that all tests use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIRECTORY, shared.directory())
        yield


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Choosing, PrecisionChoice]:
    """A choice with a goal that only float32 meets."""
    choosing = Choosing(tmp_path_factory.mktemp("choosing"))
    return choosing, choosing.run(sqnr_db=100.0)


def test_what_meets_the_goals_is_chosen_however_fast_the_others_are(chosen):
    _, choice = chosen
    assert choice.assignment == LayerAssignment(uniform="float32")
    assert choice.because == "the fastest that meets the goals"
    assert choice.missed == []


def test_every_candidate_has_figures_and_a_reason_and_uniform_ones_are_among_them(chosen):
    _, choice = chosen
    names = {candidate.name for candidate in choice.candidates}
    assert {"float32", "int8"} <= names
    assert all(candidate.is_measured and candidate.reason for candidate in choice.candidates)
    (whole,) = [candidate for candidate in choice.candidates if candidate.name == "int8"]
    assert whole.reason.startswith("misses sqnr_db (goal 100)")
    assert len({candidate.assignment.model_dump_json() for candidate in choice.candidates}) == len(choice.candidates)


def test_each_layer_is_measured_separately_and_the_noise_of_both_is_about_the_sum(chosen):
    _, choice = chosen
    effects = {effect.part: effect for effect in choice.effects}
    assert set(effects) == {0, 1}
    (whole,) = [candidate for candidate in choice.candidates if candidate.name == "int8"]
    total = sum(effect.noise or 0.0 for effect in effects.values())
    assert whole.noise is not None
    assert total / 3 < whole.noise < total * 3


def test_what_cannot_be_quantised_is_kept_and_named(chosen):
    _, choice = chosen
    assert [layer.able for layer in choice.layers] == [["float32", "int8"], ["float32", "int8"], ["float32"]]
    assert any("its second operand is computed, not a weight" in warning for warning in choice.warnings)


def test_without_a_dataset_it_warns(chosen):
    _, choice = chosen
    assert any("has no dataset: noise and goals come from 4 random inputs" in warning for warning in choice.warnings)


def test_of_a_quantised_source_it_says_that_there_is_nothing_to_choose_and_why(tmp_path):
    weight = {"w": onnx_models.random(32, 32, seed=1)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [4, 32])}, ["y"], weight)
    choice = Choosing(tmp_path, quantized_dynamically(model, QuantType.QInt8, False, tmp_path)).run()
    assert "is already quantised, and uses its own integers" in "; ".join(choice.warnings)


def test_the_file_holds_the_choice(chosen):
    choosing, choice = chosen
    assert stage_json.load(PrecisionChoice, choosing.directory / "out/precision.json") == choice


@pytest.mark.long
def test_goals_that_nothing_meets_give_the_nearest_and_by_how_much_it_misses(chosen):
    choosing, _ = chosen
    choice = choosing.run(package_mb=1e-6)
    assert [goal.goal for goal in choice.missed] == ["package_mb"]
    assert choice.because.startswith("none meets the goals, and this one misses them least: package_mb (goal 1e-06): ")
    sizes = {candidate.name: candidate.missed[0].value for candidate in choice.candidates}
    assert sizes[choice.chosen] == min(sizes.values())


def test_a_lock_gives_the_network_and_nothing_is_measured(chosen):
    choosing, _ = chosen
    lock = choosing.directory / "run.lock"
    assignment = '{"net/auto/cpu": {"layers": ["int8", "float32", "float32"]}}'
    text = f'{{"schema_version": 1, "written_by": "x", "records": {{}}, "layouts": {{}}, "assignments": {assignment}}}'
    write_text(lock, text)
    choice = choosing.run(frozen=lock)
    assert (choice.mix, choice.candidates, choice.because) == ("2 float32, 1 int8", [], "as the lock says")
    kinds = ["int" if "int32" in line or "int8" in line else "float" for line in choosing.matmuls]
    assert kinds[0] == "int"
    assert set(kinds[1:]) == {"float"}


def overflowing() -> onnx_models.onnx.ModelProto:
    """Three matmuls; values between the second and the third exceed float16."""
    shares = {"w1": 1 / 6, "w2": 1e6, "w3": 1e-7}
    weights = {name: onnx_models.random(32, 32, seed=seed) * share for seed, (name, share) in enumerate(shares.items())}
    nodes = [
        helper.make_node("MatMul", [source, weight], [result])
        for source, weight, result in zip("xab", weights, "aby", strict=True)
    ]
    return onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [4, 32])}, ["y"], weights)


def test_a_layer_that_gives_no_numbers_in_a_precision_costs_the_others_nothing(tmp_path):
    choice = Choosing(tmp_path, overflowing()).run(among=["float32", "float16"], sqnr_db=40.0)
    wrong = {effect.part for effect in choice.effects if (effect.noise or 0.0) >= 1}
    assert wrong == {1, 2}
    (whole,) = [candidate for candidate in choice.candidates if candidate.name == "float16"]
    assert (whole.noise, whole.sqnr_db) == (1e20, None)
    mixed = [candidate.assignment.layers for candidate in choice.candidates if candidate.assignment.uniform is None]
    assert all(layers[1:3] == ["float32", "float32"] for layers in mixed)
    assert ["float16", "float32", "float32"] in mixed


def refusing(monkeypatch: pytest.MonkeyPatch, is_refused: Callable[[list[str]], bool]) -> None:
    """Let TVM fail for networks by the dtypes of their matmuls' weights."""
    real = trials.build

    def build(module: Path, *others: Any) -> Any:
        products = [line for line in load_module(module).script().splitlines() if "R.matmul" in line]
        if is_refused(["int8" if "int32" in line else "float32" for line in products]):
            raise ValueError("no schedule for this kernel")
        return real(module, *others)

    monkeypatch.setattr(trials, "build", build)


def test_a_layer_that_tvm_cannot_build_in_a_precision_excludes_only_that_choice(tmp_path, monkeypatch):
    refusing(monkeypatch, lambda kinds: kinds[0] == "int8")
    choice = Choosing(tmp_path).run(sqnr_db=10.0)
    problem = "cannot be built: no schedule for this kernel"
    assert {effect.part: effect.problem for effect in choice.effects} == {0: problem, 1: ""}
    assert {candidate.name: candidate.problem for candidate in choice.candidates if candidate.problem} == {
        "int8": problem
    }
    assert ["float32", "int8", "float32"] in [candidate.assignment.layers for candidate in choice.candidates]


CRASHES = """
import ctypes, os, signal
from tvm import te, tirx
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

ENDS = {
    "segfault": lambda: ctypes.string_at(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}

def is_first_in_integers(module):
    products = [line for line in module.script().splitlines() if "R.matmul" in line]
    return "int32" in products[0]

def when_built(how):
    def crash(module):
        if is_first_in_integers(module):
            ENDS[how]()
        return module
    return crash

@mutator
class Aborting(PyExprMutator):
    def visit_call_(self, op):
        call = self.visit_expr_post_order(op)
        if getattr(call.op, "name", "") != "relax.matmul" or call.ty.dtype != "int32":
            return call
        def compute(values):
            ended = tirx.call_extern("int32", "abort")
            return te.compute(values.shape, lambda i, j: values[i, j] + ended)
        return self.builder_.emit_te(compute, self.builder_.emit(call))

def when_run():
    def crash(module):
        if is_first_in_integers(module):
            changed = Aborting(module)
            changed.builder_.update_func(module.get_global_var("main"), changed.visit_expr(module["main"]))
            return changed.builder_.get()
        return module
    return crash
"""


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [
        pytest.param(
            *(
                "when_built",
                {"how": "segfault"},
                "cannot be built: pass .*: building it ended the process with SIGSEGV",
            ),
            marks=pytest.mark.soak,
        ),
        ("when_built", {"how": "killed"}, "cannot be built: pass .*: building it ended the process with SIGKILL"),
        pytest.param("when_run", {}, "does not run: .* ended with SIGABRT", marks=pytest.mark.long),
    ],
)
def test_a_layer_that_ends_the_process_in_a_precision_excludes_only_that_choice(
    function, arguments, problem, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    name = f"crashes_{function}_{'_'.join(arguments.values())}"  # unique: Python caches modules
    write_text(tmp_path / f"{name}.py", CRASHES)
    crash = UserPass(use=f"{name}:{function}", at="after_precision", arguments=arguments)
    choice = Choosing(tmp_path).run(passes=[crash], sqnr_db=10.0)
    problems = {effect.part: effect.problem for effect in choice.effects}
    assert re.match(problem, problems[0])
    assert problems[1] == ""
    assert {candidate.name for candidate in choice.candidates if candidate.problem} == {"int8"}
    assert ["float32", "int8", "float32"] in [candidate.assignment.layers for candidate in choice.candidates]


@pytest.mark.soak
def test_a_layer_that_cannot_be_built_in_the_most_accurate_precision_leaves_the_others_their_choice(
    tmp_path, monkeypatch
):
    refusing(monkeypatch, lambda kinds: kinds[0] == "float32")
    choice = Choosing(tmp_path).run(sqnr_db=10.0)
    assert choice.assignment.uniform == "int8" or choice.assignment.layers[0] == "int8"
    assert ["int8", "float32", "float32"] in [candidate.assignment.layers for candidate in choice.candidates]
