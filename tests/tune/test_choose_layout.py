"""The stage that chooses a layout, with artificial latencies: its choice, its measurements, and its failures."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from onnx import helper

from tests.frontend.onnx import models as onnx_models
from tests.transform.nets import imported, transformed
from tests.tune.search.test_search import MadeUp
from tvmake.artifact import stage_json
from tvmake.artifact.module_files import save_module
from tvmake.artifact.weights.tensors import save_params
from tvmake.config.requests.tuning import ChooseLayoutRequest, ExtractRequest, SearchOptions, TuneRequest
from tvmake.config.target import TargetConfig
from tvmake.errors import DeviceError
from tvmake.stages.choices.choose_layout import choose_layout
from tvmake.tune.layouts import LayoutChoice
from tvmake.tune.measure.interface import Candidate, Measured

LAYOUTS = ("NCHW", "NHWC")
CPU = TargetConfig(kind="llvm", mcpu="x86-64-v3")

Answer = Callable[[Candidate], Measured]

Network = Callable[[], onnx_models.onnx.ModelProto]


def convolutions() -> onnx_models.onnx.ModelProto:
    """Two convolutions of 8 × 12 × 12."""
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["y"], pads=[1] * 4),
    ]
    weights = {"w1": onnx_models.random(8, 8, 3, 3, seed=1), "w2": onnx_models.random(8, 8, 3, 3, seed=2)}
    return onnx_models.model(nodes, {"image": (onnx_models.FLOAT, [1, 8, 12, 12])}, ["y"], weights)


def matmul() -> onnx_models.onnx.ModelProto:
    """A network that no layout changes."""
    node = helper.make_node("MatMul", ["image", "w"], ["y"])
    return onnx_models.model(
        [node], {"image": (onnx_models.FLOAT, [1, 64])}, ["y"], {"w": onnx_models.random(64, 64, seed=1)}
    )


FILES = ("module.json", "module.params", "signature.json")


@pytest.fixture(scope="module")
def layouts_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Network], Path]:
    """For a network, a directory with its files in each layout."""

    @cache
    def transform(network: Network) -> Path:
        root = tmp_path_factory.mktemp("layouts")
        model = imported(network())
        for layout in LAYOUTS:
            directory = root / layout
            directory.mkdir()
            module, params = transformed(model, layout=layout)
            save_module(module, directory / "module.json")
            save_params(params, directory / "module.params")
            stage_json.save(model.signature, directory / "signature.json")
        return root

    return transform


class Stage:
    """The stage on a network, in a directory of its own.

    Args:
        layouts: the network's files.
    """

    def __init__(self, directory: Path, layouts: Path):
        self.directory, self.layouts = directory, layouts
        self.measurer = MadeUp()

    def run(self, answer: Answer, trials: int = 4) -> LayoutChoice:
        self.measurer = MadeUp(answer)
        request = ChooseLayoutRequest(
            layouts=list(LAYOUTS),
            trials=trials,
            extract=ExtractRequest(target_name="cpu", target=CPU),
            tune=TuneRequest(
                target_name="cpu",
                target=CPU,
                store=str(self.directory / "records"),
                search=SearchOptions(cost_model="random", batch=4, population=16),
            ),
        )
        out = self.directory / "out"
        candidates = [self.layouts / layout / "module.json" for layout in LAYOUTS]
        outputs = [out / name for name in (*FILES, "layout.json")]
        return choose_layout(candidates, request, *outputs, out / "events.jsonl")

    def took(self, layout: str) -> bool:
        """Whether the files are exactly a layout's."""
        return all(
            (self.directory / "out" / name).read_bytes() == (self.layouts / layout / name).read_bytes()
            for name in FILES
        )


@pytest.fixture
def start(
    layouts_of: Callable[[Network], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Network], Stage]:
    """Starts the stage on a network."""
    started: list[Stage] = []

    @contextmanager
    def measurer(*_: object) -> Iterator[MadeUp]:
        yield started[0].measurer

    monkeypatch.setattr("tvmake.tune.measure.connect.measurer", measurer)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))

    def start(network: Network) -> Stage:
        started.append(Stage(tmp_path / "stage", layouts_of(network)))
        return started[0]

    return start


@pytest.fixture
def stage(start: Callable[[Network], Stage]) -> Stage:
    """The stage on convolutions."""
    return start(convolutions)


def is_channels_last(candidate: Candidate) -> bool:
    """Whether a candidate's first argument is 12 × 12 × 8, rather than 8 × 12 × 12."""
    return [int(extent) for extent in candidate.args_info[0].shape] == [1, 12, 12, 8]


def taking(**seconds: float) -> Answer:
    """Latencies of each layout's kernels."""

    def answer(candidate: Candidate) -> Measured:
        return Measured(candidate.number, "ok", (seconds["NHWC" if is_channels_last(candidate) else "NCHW"],))

    return answer


@pytest.mark.parametrize(("times", "expected"), [((1e-3, 2e-3), "NCHW"), ((2e-3, 1e-3), "NHWC")])
def test_the_layout_with_the_faster_kernels_is_copied_unchanged(
    stage: Stage, times: tuple[float, float], expected: str
):
    choice = stage.run(taking(NCHW=times[0], NHWC=times[1]))
    assert choice.layout == expected
    assert stage.took(expected)
    # Two kernels do all the work in each layout.
    figures = {estimate.layout: estimate.estimate_ms for estimate in choice.estimates}
    assert figures == {"NCHW": pytest.approx(2e3 * times[0]), "NHWC": pytest.approx(2e3 * times[1])}
    assert stage_json.load(LayoutChoice, stage.directory / "out/layout.json") == choice


def test_the_log_ends_with_the_choice(stage: Stage):
    stage.run(taking(NCHW=2e-3, NHWC=1e-3))
    *_, last = (stage.directory / "out/events.jsonl").read_text().splitlines()
    assert json.loads(last)["message"] == "NHWC, 2 ms against 4 ms NCHW"


def test_layouts_are_measured_one_after_another(stage: Stage):
    stage.run(taking(NCHW=2e-3, NHWC=1e-3))
    events = [json.loads(line) for line in (stage.directory / "out/events.jsonl").read_text().splitlines()]
    measured = [event["name"].rpartition(" in ")[2] for event in events if event["event"] == "start"]
    assert measured == ["NCHW", "NHWC", "NCHW", "NHWC"]


def test_with_the_same_store_the_choice_is_the_same_and_nothing_is_measured(stage: Stage):
    first = stage.run(taking(NCHW=2e-3, NHWC=1e-3))
    assert stage.measurer.measured > 0
    again = stage.run(taking(NCHW=1e-3, NHWC=2e-3))
    assert stage.measurer.measured == 0
    assert again == first


def test_tuning_beyond_the_comparison_does_not_count_for_a_layout(stage: Stage):
    stage.run(taking(NCHW=2e-3, NHWC=1e-3), trials=4)

    def much_better(candidate: Candidate) -> Measured:
        return Measured(candidate.number, "ok", (1e-3 if is_channels_last(candidate) else 1e-4,))

    assert stage.run(much_better, trials=8).layout == "NCHW"
    assert stage.run(much_better, trials=4).layout == "NHWC"
    assert stage.measurer.measured == 0


def failing(layout: str) -> Answer:
    """Nothing builds in a layout."""

    def answer(candidate: Candidate) -> Measured:
        if layout == "all" or is_channels_last(candidate) == (layout == "NHWC"):
            return Measured(candidate.number, "build_error", error="no such instruction")
        return Measured(candidate.number, "ok", (1e-3,))

    return answer


@pytest.mark.parametrize(("layout", "other"), [("NCHW", "NHWC"), ("NHWC", "NCHW")])
def test_a_layout_without_working_kernels_is_not_chosen_with_a_reason(stage: Stage, layout: str, other: str):
    choice = stage.run(failing(layout))
    assert choice.layout == other
    problems = {estimate.layout: estimate.problem for estimate in choice.estimates}
    assert problems[other] is None
    assert problems[layout] == "none of 4 candidates worked; the first failed with build error: no such instruction"
    assert stage.run(failing(layout)).layout == other
    assert stage.measurer.measured == 0


def test_if_nothing_works_in_any_layout_the_stage_fails(stage: Stage):
    with pytest.raises(DeviceError, match="none of 4 candidates worked"):
        stage.run(failing("all"))


def test_a_lost_device_is_not_taken_for_a_slow_layout(stage: Stage):
    def lost(candidate: Candidate) -> Measured:
        raise DeviceError("device 'phone'", "it is gone")

    with pytest.raises(DeviceError, match="it is gone"):
        stage.run(lost)


def test_a_network_that_no_layout_changes_needs_no_measuring(start: Callable[[Network], Stage]):
    stage = start(matmul)
    choice = stage.run(failing("all"))
    assert (choice.layout, choice.estimates) == ("NCHW", [])
    assert stage.measurer.measured == 0
    assert stage.took("NCHW")
