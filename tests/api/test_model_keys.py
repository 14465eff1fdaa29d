"""Arguments of `tvmake.load` as keys of a config."""

import numpy as np
import pytest

from tvmake.api.model_keys import model_keys
from tvmake.config.root import ModelConfig
from tvmake.errors import InputError


def test_arguments_become_the_keys_of_a_model():
    dims = {"length": (1, np.int64(512)), "past": (0, None), "rows": (None, 8)}
    shapes = [{"batch": np.int64(1)}, {"batch": 8}]
    values = {"x": np.float32(2), "sr": np.array([1, 2])}
    keys = model_keys({"x": np.zeros((1, 3))}, dims, shapes, values, {"h": "h_next"}, trusted=True)
    assert keys == {
        "inputs": {"x": {"shape": [1, 3], "value": 2.0}, "sr": {"value": [1, 2]}},
        "dims": {"length": {"min": 1, "max": 512}, "past": {"min": 0}, "rows": {"max": 8}},
        "shapes": [{"batch": 1}, {"batch": 8}],
        "state": {"h": "h_next"},
        "trusted": True,
    }
    assert ModelConfig(source="net.onnx", **keys)
    assert model_keys(None, None, (), None, None, trusted=False) == {}


@pytest.mark.parametrize("argument", ["inputs", "dims", "values", "state"])
def test_an_argument_that_is_not_a_mapping_is_refused_with_an_example(argument: str):
    given = {"inputs": None, "dims": None, "values": None, "state": None, argument: 1}
    with pytest.raises(InputError, match=f"^{argument}: expected a mapping by name \\(got int\\)\n.*{{'"):
        model_keys(given["inputs"], given["dims"], (), given["values"], given["state"], trusted=False)


@pytest.mark.parametrize("shapes", [{"batch": 1}, 1, "batch=1"])
def test_shapes_that_are_no_list_are_refused_with_an_example(shapes):
    with pytest.raises(InputError, match=r"^shapes: expected a list .*\n.*\[{'batch': 1}, {'batch': 8}\]"):
        model_keys(None, None, shapes, None, None, trusted=False)
