"""Rewrite grouped-query attention (domain ``com.microsoft``) to ONNX's own operators.

Sequences of a batch have different lengths: new keys follow the last old key of each sequence.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.contrib.heads import length_of, positions_of, split, split_heads
from tvmake.frontend.onnx.rewrites.contrib.rotary import rotate


@dataclass(frozen=True)
class CachePositions:
    """Positions of the old and new keys in the key-value cache."""

    before: str
    """Number of keys from earlier steps, [batch, 1]."""
    new: str
    """Number of new keys, [1]."""
    columns: str
    """The indices of the cache, [1, length]."""
    end: str
    """Length of the cache, [1]."""


def group_query_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Compute attention; also return all keys and values for the next step.

    Not for sinks, smoothed softmaxes, scores as outputs, and quantised caches.
    """
    query, key, value, past_key, past_value, lengths, total, cosines, sines, positions, score_bias, *unsupported = (
        optional_input(node, index) for index in range(14)
    )
    values, like = attributes(node), node.input[0]
    heads, groups = values["num_heads"], values["kv_num_heads"]
    width, half = (build.graph.shape(query) or (None,))[-1], (build.graph.shape(cosines) or (None, None))[1]
    is_unsupported = any(unsupported) or any(node.output[3:]) or values.get("smooth_softmax", -1) > 0
    is_quantised = any(values.get(f"{part}_quant_type", "NONE") != "NONE" for part in "kv")
    if not isinstance(width, int) or not past_key or is_unsupported or is_quantised or bool(key) != bool(value):
        return None
    size = width // (heads if key else heads + 2 * groups)
    if not key:
        query, key, value = split(build, query, [heads * size, groups * size, groups * size])
    q, k, v = (split_heads(build, part, n, size) for part, n in ((query, heads), (key, groups), (value, groups)))
    cache = _cache_positions(build, length_of(build, q), length_of(build, past_key), lengths, total)
    rows = build.op("Add", positions_of(build, q, [1, -1]), cache.before)  # of the queries, [batch, new]
    if values.get("do_rotary"):
        if not isinstance(half, int):
            return None
        angles = (positions or rows, cosines, sines)
        q, k = (rotate(build, x, angles, half, size, bool(values.get("rotary_interleaved"))) for x in (q, k))
    keys, all_values = (_append(build, *pair, cache, like) for pair in ((past_key, k), (past_value, v)))
    q = build.reshape(q, [0, groups, heads // groups, -1, size])
    q = build.op("Mul", q, build.like(values.get("scale") or 1 / math.sqrt(size), like))
    scores = build.op("MatMul", q, build.transpose(build.unsqueeze(keys, [2]), [0, 1, 2, 4, 3]))
    if softcap := values.get("softcap"):
        cap = build.like(softcap, like)
        scores = build.op("Mul", build.op("Tanh", build.op("Div", scores, cap)), cap)
    if score_bias:
        group_bias = _split_groups(build, score_bias, heads, groups)
        if group_bias is None:
            return None
        scores = build.op("Add", scores, group_bias)
    lowest = build.like(np.finfo(build.graph.numpy_dtype(like)).min, like)
    allowed = _causal_mask(build, rows, cache.columns, values.get("local_window_size", -1))
    scores = build.op("Where", allowed, scores, lowest)
    result = build.op("MatMul", build.op("Softmax", scores, axis=-1), build.unsqueeze(all_values, [2]))
    result = build.transpose(build.reshape(result, [0, heads, -1, size]), [0, 2, 1, 3])
    return [build.reshape(result, [0, 0, heads * size]), keys, all_values]


def _cache_positions(build: Builder, new: str, old: str, lengths: str, total: str) -> CachePositions:
    """Positions from the sequences' lengths minus one, and the longest length; the first step may be padded."""
    count = build.op("Add", build.cast(build.reshape(lengths, [-1]), TensorProto.INT64), build.ints([1]))
    before = build.unsqueeze(build.op("Max", build.op("Sub", count, new), build.ints([0])), [1])
    end = build.op("Max", old, build.cast(build.reshape(total, [1]), TensorProto.INT64))
    zero, one = build.const(0, np.int64), build.const(1, np.int64)
    columns = build.reshape(build.op("Range", zero, build.reshape(end, []), one), [1, -1])
    return CachePositions(before, new, columns, end)


def _append(build: Builder, past: str, new: str, cache: CachePositions, like: str) -> str:
    """The old keys or values, then the new ones, then zeros."""
    joined, old = build.concat([past, new], 2), length_of(build, past)
    new_index = build.op("Add", old, build.op("Sub", cache.columns, cache.before))
    source = build.op("Where", build.op("Less", cache.columns, cache.before), cache.columns, new_index)
    last = build.op("Sub", build.op("Add", old, cache.new), build.ints([1]))
    extents = build.op("Shape", joined)
    shape = build.concat([build.slice(extents, 0, 0, 2), cache.end, build.slice(extents, 0, 3, 4)], 0)
    index = build.op("Expand", build.unsqueeze(build.op("Min", source, last), [1, 3]), shape)
    result = build.op("GatherElements", joined, index, axis=2)
    is_filled = build.op("Less", cache.columns, build.op("Add", cache.before, cache.new))
    return build.op("Where", build.unsqueeze(is_filled, [1, 3]), result, build.like(0, like))


def _split_groups(build: Builder, score_bias: str, heads: int, groups: int) -> str | None:
    """The bias of the scores by groups of heads; None if its number of heads does not fit."""
    bias_heads = (build.graph.shape(score_bias) or (None, None))[1]
    if bias_heads == 1:
        return build.unsqueeze(score_bias, [1])
    if bias_heads != heads:
        return None
    extents = build.op("Shape", score_bias)
    sizes = build.ints([groups, heads // groups])
    shape = build.concat([build.slice(extents, 0, 0, 1), sizes, build.slice(extents, 0, 2, 4)], 0)
    return build.op("Reshape", score_bias, shape)


def _causal_mask(build: Builder, rows: str, columns: str, window: int) -> str:
    """Whether a key is not after a query, and within the local window if there is one, [batch, 1, 1, queries, keys]."""
    rows, columns = build.unsqueeze(rows, [2]), build.unsqueeze(columns, [1])
    allowed = build.op("Not", build.op("Greater", columns, rows))
    if window > 0:
        near = build.op("Greater", columns, build.op("Sub", rows, build.ints([window])))
        allowed = build.op("And", allowed, near)
    return build.unsqueeze(allowed, [1, 2])


RULES: dict[str, Rule] = {"GroupQueryAttention": group_query_attention}
