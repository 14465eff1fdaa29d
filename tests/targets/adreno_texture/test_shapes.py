"""Textures need fixed shapes."""

import pytest
import tvm

from tests.targets.adreno_texture.nets import BUFFER, conv, lowered, tensor
from tvmake.errors import InputError


def test_dynamic_dimensions_are_refused_by_name_for_textures_only():
    batch = tvm.tirx.Var("batch", "int64")
    inputs = ((batch, 8, 8, 8), "float32"), tensor(8, 8, 3, 3)
    with pytest.raises(InputError, match="the model has the dimensions batch"):
        lowered(lambda x, w: conv(x, w), *inputs)
    assert lowered(lambda x, w: conv(x, w), *inputs, name=BUFFER)
