"""Attention where several queries' heads share keys and values (domain ``com.microsoft``) as ONNX's own operators.

Each sentence of a batch has a length of its own: its new keys stand behind its old ones, wherever these end.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.contrib.heads import by_heads, cut, length_of, places_of
from tvmake.frontend.onnx.rewrites.contrib.rotary import turned


@dataclass(frozen=True)
class Places:
    """Where the keys of a step stand among those that are kept."""

    before: str
    """How many a sentence has from the steps before, [batch, 1]."""
    new: str
    """How many it gets, [1]."""
    columns: str
    """0, 1 … up to the last place that is kept, [1, places]."""
    end: str
    """How many places there are, [1]."""


def group_query_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """What queries take of values, and all keys and values for the next step.

    Sinks, smoothed softmaxes, scores as outputs and caches in integers are none of this.
    """
    query, key, value, past_key, past_value, lengths, total, cosines, sines, positions, added, *others = (
        optional_input(node, at) for at in range(14)
    )
    values, like = attributes(node), node.input[0]
    heads, kept = values["num_heads"], values["kv_num_heads"]
    width, half = (build.graph.shape(query) or (None,))[-1], (build.graph.shape(cosines) or (None, None))[1]
    is_other = any(others) or any(node.output[3:]) or values.get("smooth_softmax", -1) > 0
    is_quantised = any(values.get(f"{part}_quant_type", "NONE") != "NONE" for part in "kv")
    if not isinstance(width, int) or not past_key or is_other or is_quantised or bool(key) != bool(value):
        return None
    size = width // (heads if key else heads + 2 * kept)
    if not key:
        query, key, value = cut(build, query, [heads * size, kept * size, kept * size])
    q, k, v = (by_heads(build, part, n, size) for part, n in ((query, heads), (key, kept), (value, kept)))
    places = _places(build, length_of(build, q), length_of(build, past_key), lengths, total)
    rows = build.op("Add", places_of(build, q, [1, -1]), places.before)  # of the queries, [batch, new]
    if values.get("do_rotary"):
        if not isinstance(half, int):
            return None
        by = (positions or rows, cosines, sines)
        q, k = (turned(build, x, by, half, size, bool(values.get("rotary_interleaved"))) for x in (q, k))
    keys, taken = (_continued(build, *pair, places, like) for pair in ((past_key, k), (past_value, v)))
    q = build.reshape(q, [0, kept, heads // kept, -1, size])
    q = build.op("Mul", q, build.like(values.get("scale") or 1 / math.sqrt(size), like))
    scores = build.op("MatMul", q, build.transpose(build.unsqueeze(keys, [2]), [0, 1, 2, 4, 3]))
    if softcap := values.get("softcap"):
        cap = build.like(softcap, like)
        scores = build.op("Mul", build.op("Tanh", build.op("Div", scores, cap)), cap)
    if added:
        spread = _by_groups(build, added, heads, kept)
        if spread is None:
            return None
        scores = build.op("Add", scores, spread)
    lowest = build.like(np.finfo(build.graph.numpy_dtype(like)).min, like)
    allowed = _allowed(build, rows, places.columns, values.get("local_window_size", -1))
    scores = build.op("Where", allowed, scores, lowest)
    result = build.op("MatMul", build.op("Softmax", scores, axis=-1), build.unsqueeze(taken, [2]))
    result = build.transpose(build.reshape(result, [0, heads, -1, size]), [0, 2, 1, 3])
    return [build.reshape(result, [0, 0, heads * size]), keys, taken]


def _places(build: Builder, new: str, old: str, lengths: str, total: str) -> Places:
    """From each sentence's length, less one, and the longest one's; the first steps may be filled up."""
    count = build.op("Add", build.cast(build.reshape(lengths, [-1]), TensorProto.INT64), build.ints([1]))
    before = build.unsqueeze(build.op("Max", build.op("Sub", count, new), build.ints([0])), [1])
    end = build.op("Max", old, build.cast(build.reshape(total, [1]), TensorProto.INT64))
    zero, one = build.const(0, np.int64), build.const(1, np.int64)
    columns = build.reshape(build.op("Range", zero, build.reshape(end, []), one), [1, -1])
    return Places(before, new, columns, end)


def _continued(build: Builder, past: str, new: str, places: Places, like: str) -> str:
    """Keys or values of the steps before with the new ones behind them, zeros behind these."""
    every, old = build.concat([past, new], 2), length_of(build, past)
    behind = build.op("Add", old, build.op("Sub", places.columns, places.before))
    place = build.op("Where", build.op("Less", places.columns, places.before), places.columns, behind)
    last = build.op("Sub", build.op("Add", old, places.new), build.ints([1]))
    extents = build.op("Shape", every)
    shape = build.concat([build.slice(extents, 0, 0, 2), places.end, build.slice(extents, 0, 3, 4)], 0)
    index = build.op("Expand", build.unsqueeze(build.op("Min", place, last), [1, 3]), shape)
    taken = build.op("GatherElements", every, index, axis=2)
    is_there = build.op("Less", places.columns, build.op("Add", places.before, places.new))
    return build.op("Where", build.unsqueeze(is_there, [1, 3]), taken, build.like(0, like))


def _by_groups(build: Builder, added: str, heads: int, kept: int) -> str | None:
    """What is added to scores, by groups of heads; None where it is for other heads."""
    of_heads = (build.graph.shape(added) or (None, None))[1]
    if of_heads == 1:
        return build.unsqueeze(added, [1])
    if of_heads != heads:
        return None
    extents = build.op("Shape", added)
    groups = build.ints([kept, heads // kept])
    shape = build.concat([build.slice(extents, 0, 0, 1), groups, build.slice(extents, 0, 2, 4)], 0)
    return build.op("Reshape", added, shape)


def _allowed(build: Builder, rows: str, columns: str, window: int) -> str:
    """Which keys are not behind a query, and near it where there is a window: [batch, 1, 1, queries, keys]."""
    rows, columns = build.unsqueeze(rows, [2]), build.unsqueeze(columns, [1])
    allowed = build.op("Not", build.op("Greater", columns, rows))
    if window > 0:
        near = build.op("Greater", columns, build.op("Sub", rows, build.ints([window])))
        allowed = build.op("And", allowed, near)
    return build.unsqueeze(allowed, [1, 2])


RULES: dict[str, Rule] = {"GroupQueryAttention": group_query_attention}
