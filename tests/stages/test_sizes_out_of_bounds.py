"""A size in ``inputs`` that the network cannot take is refused with the network's bounds, not at an operator."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx.models import FLOAT, model, random
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model

node = helper.make_node

NETWORKS = {
    "a squeeze after windows": [
        node("MaxPool", ["x"], ["pooled"], kernel_shape=[6], strides=[6]),
        node("Squeeze", ["pooled", "last"], ["y"]),
    ],
    "a convolution": [node("Conv", ["x", "w"], ["y"], kernel_shape=[6])],
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_size_below_the_smallest_one_is_refused_with_the_bound(tmp_path, name):
    proto = model(NETWORKS[name], {"x": (FLOAT, [1, 2, "n"])}, ["y"], {"last": np.array([-1]), "w": random(3, 2, 6)})
    onnx.save(proto, tmp_path / "m.onnx")
    outputs = [tmp_path / file for file in ("model.json", "model.params", "signature.json", "source.json")]
    with pytest.raises(InputError) as caught:
        import_model(
            ImportOptions(source=str(tmp_path / "m.onnx"), inputs={"x": {"shape": [1, 2, 4]}}),
            *outputs,
        )
    assert caught.value.problem.startswith("axis 2 of input 'x' is 4, and the network takes 6 ")
    assert not any(file.exists() for file in outputs)
