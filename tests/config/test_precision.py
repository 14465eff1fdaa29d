"""Config of precisions that are chosen by measuring."""

import pytest
import yaml

from tvmake.config.reading.load import check
from tvmake.config.root import Config
from tvmake.errors import TvmakeError
from tvmake.plan.plan import Plan
from tvmake.stages.choices.choose_precision import choose_precision_request


def config(precisions: str, targets: str = "{cpu: {kind: llvm, mcpu: native}}") -> Config:
    return check(
        yaml.safe_load(f"models: {{net: {{source: net.onnx}}}}\nprecisions: {precisions}\ntargets: {targets}"), {}
    )


def among(config: Config) -> list[str]:
    plan = Plan(config)
    return list(choose_precision_request(plan.context(plan.variants[0])).among)


def test_auto_chooses_among_all_supported_precisions_of_the_target():
    for text in ("[auto]", "{auto: {}}", "{mine: {base: auto}}"):
        assert among(config(text)) == ["float32", "float16", "int8"]


def test_the_order_of_among_does_not_matter():
    first, second = (
        config(f"{{mixed: {{base: auto, among: [{text}]}}}}") for text in ("int8, float32", "float32, int8")
    )
    assert first == second
    assert among(first) == ["float32", "int8"]


@pytest.mark.parametrize(
    ("precisions", "problem"),
    [
        ("{mixed: {base: auto, among: [int8]}}", r"precisions\.mixed\.among: leaves nothing to choose"),
        ("{mixed: {base: auto, among: [int8, int8]}}", "names a precision twice"),
        ("{mixed: {base: auto, among: [int8, int9]}}", "int9"),
        ("{mixed: {base: auto, among: [int8, int4_weights]}}", "int4_weights"),
        ("{mixed: {base: int8, among: [int8, float32]}}", "among is for base auto"),
        ("{mixed: {base: auto, always: [add]}}", "base auto has no always"),
        ("{mixed: {base: auto, follow: [add]}}", "base auto has no follow"),
        (
            "{mixed: {base: float16, always: [add], never: [relax.add]}}",
            "add is in two of always, never and follow",
        ),
        ("{mixed: {base: int8, calibration: {percentile: 99.9}}}", "percentile is for method percentile"),
        ("{mixed: {base: auto, group: 32}}", "group is for base int8_weights or int4_weights"),
        ("{mixed: {base: auto, among: [float32, float16], calibration: {samples: 3}}}", "calibration is for base int8"),
    ],
)
def test_contradictory_options_are_refused_with_their_key(precisions: str, problem: str):
    with pytest.raises(TvmakeError, match=problem):
        config(precisions)


def test_a_target_without_a_device_is_refused_with_a_remedy():
    with pytest.raises(TvmakeError, match=r"targets\.board: precision 'auto' is chosen by measuring[\s\S]*give it one"):
        config("[auto]", "{board: {kind: llvm, mtriple: aarch64-linux-gnu}}")


def test_calibration_is_needed_only_if_int8_is_a_candidate():
    def calibrated(text: str) -> bool:
        (precision,) = config(text).precisions.values()
        return precision.is_calibrated

    assert calibrated("[auto]")
    assert calibrated("{mixed: {base: auto, among: [float16, int8]}}")
    assert not calibrated("{mixed: {base: auto, among: [float32, float16]}}")
