"""Dimensions have the smallest size with which the network computes something as their lower bound."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, save
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError
from tvmake.frontend.smallest_sizes import bound_sizes


def bounds_of_model(tmp_path, nodes, shape, constants=None):
    imported = read(save(tmp_path / "m.onnx", model(nodes, {"x": (FLOAT, shape)}, ["y"], constants)))
    return bound_sizes(imported, "m.onnx").signature.bounds


def test_an_image_is_at_least_as_large_as_the_windows_over_it(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2]),
        helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 1], strides=[2, 1]),
    ]
    bounds = bounds_of_model(tmp_path, nodes, ["batch", 3, "height", "width"], {"w": random(4, 3, 3, 3)})
    assert bounds == {"height": (5, None), "width": (3, None)}


@pytest.mark.parametrize("index", [np.int64(0), np.int64(-1), np.array([[0], [1]])])
def test_an_axis_that_elements_are_taken_from_is_not_empty(tmp_path, index):
    gather = helper.make_node("Gather", ["x", "index"], ["y"], axis=1)
    assert bounds_of_model(tmp_path, [gather], ["batch", "t", 3], {"index": np.asarray(index)}) == {"t": (1, None)}


def test_a_table_may_be_empty_if_there_may_be_no_index(tmp_path):
    gather = helper.make_node("Gather", ["x", "i"], ["y"], axis=0)
    proto = model([gather], {"x": (FLOAT, ["rows", 3]), "i": (TensorProto.INT64, ["n"])}, ["y"])
    assert bound_sizes(read(save(tmp_path / "m.onnx", proto)), "m.onnx").signature.bounds == {}


def test_a_signal_is_as_long_as_its_frames_need(tmp_path):
    stft = helper.make_node("STFT", ["x", "hop", "window"], ["y"])
    constants = {"hop": np.array(5), "window": np.hanning(16).astype(np.float32)}
    assert bounds_of_model(tmp_path, [stft], ["batch", "t", 1], constants) == {"t": (16, None)}


def test_a_part_may_be_empty_but_not_less(tmp_path):
    slices = helper.make_node("Slice", ["x", "start", "end", "axis"], ["y"])
    constants = {"start": np.array([3]), "end": np.array([2**31]), "axis": np.array([1])}
    assert bounds_of_model(tmp_path, [slices], ["batch", "t"], constants).get("t", (0, None))[0] <= 3


def test_a_file_that_allows_no_size_that_is_large_enough_is_refused(tmp_path):
    from tvmake.ir.bounds import with_bounds

    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    path = save(tmp_path / "m.onnx", model([conv], {"x": (FLOAT, [1, 1, "t"])}, ["y"], {"w": random(1, 1, 9)}))
    imported = read(path)
    small = type(imported)(with_bounds(imported.module, {"t": (1, 8)}), imported.params, imported.signature)
    with pytest.raises(InputError, match="t - 8 is too small for every size of t that the file allows, up to 8"):
        bound_sizes(small, "m.onnx")


def test_a_size_below_nothing_that_two_dimensions_give_is_an_error_of_the_inputs(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Shape", ["z"], ["m"]),
        helper.make_node("Sub", ["n", "m"], ["difference"]),
        helper.make_node("ConstantOfShape", ["difference"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, ["n"]), "z": (FLOAT, ["m"])}, ["y"])
    imported = bound_sizes(read(save(tmp_path / "m.onnx", proto)), "m.onnx")
    assert run_compiled(imported, [random(5), random(2)])[0].shape == (3,)
    with pytest.raises(InputError, match="their sizes give a tensor that does not fit"), checking_arguments():
        run_compiled(imported, [random(2), random(5)])
