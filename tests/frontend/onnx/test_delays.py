"""Scans whose states are the latest elements of their inputs become windows: without a loop, and with ONNX Runtime's values."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save

node = helper.make_node
info = helper.make_tensor_value_info

LENGTH, STRIDE = 3, 2
END = 1 << 62


def framing(
    axis: int = -1, out_axis: int = 1, first: int = STRIDE, further: Sequence[onnx.NodeProto] = ()
) -> onnx.ModelProto:
    """Frames of 5 samples every 2; ``further`` nodes compute ``row`` from ``frame``."""
    channels = [] if axis == -1 else [4]
    state, sample = (["b", extent, *channels] for extent in (LENGTH, STRIDE))
    nodes = [
        node("Concat", ["old", "samples"], ["frame"], axis=axis),
        node("Slice", ["frame", "first", "end", "axis"], ["new"]),
        *further,
    ]
    row = "row" if further else "frame"
    body = helper.make_graph(
        nodes,
        "body",
        [info("old", FLOAT, state), info("samples", FLOAT, sample)],
        [info("new", FLOAT, None), info(row, FLOAT, None)],
    )
    layer = node(
        "Scan", ["start", "x"], ["last", "frames"], body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[out_axis]
    )  # fmt: skip
    constants = {"first": np.array([first]), "end": np.array([END]), "axis": np.array([axis])}
    inputs = {"start": (FLOAT, state), "x": (FLOAT, ["b", "t", STRIDE, *channels])}
    proto = model([layer], inputs, ["last", "frames"], constants)
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = FLOAT
    return proto


CAST = [node("Cast", ["frame"], ["wide"], to=TensorProto.DOUBLE), node("Cast", ["wide"], ["row"], to=FLOAT)]


@pytest.mark.parametrize(
    ("proto", "channels"),
    [(framing(), []), (framing(out_axis=0), []), (framing(out_axis=2), []), (framing(axis=1), [4]), (framing(further=CAST), [])],
    ids=["frames", "frames first", "frames last", "channels behind", "casts"],
)  # fmt: skip
def test_frames_of_a_signal_are_windows(tmp_path, proto, channels):
    imported = read(save(tmp_path / "m.onnx", proto))
    assert [name.name_hint for name in imported.module.get_global_vars()] == ["main"]
    for batch, count in ((1, 1), (2, 7)):
        inputs = [random(batch, LENGTH, *channels), random(batch, count, STRIDE, *channels, seed=1)]
        for result, expected in zip(run_compiled(imported, inputs), runtime(proto, inputs), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "proto", [framing(further=[node("Mul", ["frame", "frame"], ["row"])]), framing(first=-LENGTH)], ids=["arithmetic", "from the end"]
)  # fmt: skip
def test_other_bodies_stay_loops(tmp_path, proto):
    imported = read(save(tmp_path / "m.onnx", proto))
    assert len(imported.module.get_global_vars()) > 1
    inputs = [random(2, LENGTH), random(2, 4, STRIDE, seed=1)]
    for result, expected in zip(run_compiled(imported, inputs), runtime(proto, inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
