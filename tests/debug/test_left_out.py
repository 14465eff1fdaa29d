"""What a config could say otherwise."""

import pytest

from tvmake.debug.left_out import finer_weights
from tvmake.quantize.precision import PrecisionConfig


@pytest.mark.parametrize(
    ("precision", "finer"),
    [
        (
            {"base": "int4_weights"},
            ["{base: int4_weights, group: 32}", "{base: int8_weights}"]
            + [f"{{base: int8_weights, group: {group}}}" for group in (128, 64, 32)],
        ),
        ({"base": "int8_weights", "group": 64}, ["{base: int8_weights, group: 32}"]),
        ({"base": "int8"}, []),
    ],
)
def test_weights_are_tried_with_more_scales_and_then_with_more_bits(precision: dict, finer: list[str]):
    given = PrecisionConfig.model_validate({**precision, "never": ["take"]})
    found = dict(finer_weights(given))
    assert list(found) == finer
    assert all(one.never == ["take"] for one in found.values())
