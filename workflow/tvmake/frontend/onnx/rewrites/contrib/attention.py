"""Rewrite ONNX Runtime's attention (domain ``com.microsoft``) to ONNX's own operators.

As in ONNX Runtime, masks are values that are added to the scores: a fully masked row becomes the softmax of its scores.
"""

import math

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.contrib.heads import length_of, positions_of, split, split_heads

MASKED = -10000.0
"""Default value that is added to the score of a masked position."""


def attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Compute queries, keys and values by one matmul, then attention; also return the keys and values for the next step."""
    x, weights, bias, mask, past, score_bias, length = (optional_input(node, index) for index in range(7))
    values = attributes(node)
    total = (build.graph.shape(weights) or (None, None))[1]
    sizes = values.get("qkv_hidden_sizes") or ([total // 3] * 3 if isinstance(total, int) else None)
    if sizes is None or length or values.get("do_rotary") or values.get("past_present_share_buffer"):
        return None
    projected = build.op("MatMul", x, weights)
    projected = build.op("Add", projected, bias) if bias else projected
    return _attention_of_projection(node, build, x, x, projected, sizes, (mask, past, score_bias))


def quantised_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Like :func:`attention`, with an integer matmul of quantised inputs and weights."""
    x, weights, bias, x_scale, weight_scale, mask, x_zero, weight_zero, past = (
        optional_input(node, index) for index in range(9)
    )
    total, values = (build.graph.shape(weights) or (None, None))[1], attributes(node)
    if not isinstance(total, int) or values.get("do_rotary") or values.get("past_present_share_buffer"):
        return None
    sums = build.cast(build.op("MatMulInteger", x, weights, x_zero, weight_zero), TensorProto.FLOAT)
    projected = build.op("Add", build.op("Mul", sums, build.op("Mul", x_scale, weight_scale)), bias)
    return _attention_of_projection(node, build, bias, x, projected, [total // 3] * 3, (mask, past, ""))


def _attention_of_projection(
    node: onnx.NodeProto, build: Builder, like: str, rows: str, projected: str, sizes: list[int],
    optional: tuple[str, str, str],
) -> list[str] | None:  # fmt: skip
    """Attention of concatenated queries, keys and values, and the keys and values for the next step.

    Args:
        node: for its attributes and outputs.
        build: takes the operators.
        like: a value of the element type.
        rows: a value with the same batch.
        projected: [batch, length, sum of sizes].
        sizes: of queries, keys and values along the last axis.
        optional: the mask, the keys and values of earlier steps, and the bias of the scores; "" for none.
    """
    (mask, past, score_bias), heads = optional, attributes(node)["num_heads"]
    q, k, v = (
        split_heads(build, part, heads, size // heads)
        for part, size in zip(split(build, projected, sizes), sizes, strict=True)
    )
    if past:
        k, v = (
            build.concat([build.squeeze(build.slice(past, 0, index, index + 1), [0]), new], 2)
            for index, new in enumerate((k, v))
        )
    result = _attend(build, node, like, rows, (q, k, v), mask, score_bias, sizes[0] // heads, sizes[2])
    if result is None:
        return None
    present = ""
    if len(node.output) > 1 and node.output[1]:
        present = build.concat([build.unsqueeze(k, [0]), build.unsqueeze(v, [0])], 0)
    return [result, present]


def multi_head_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Attention of queries, keys and values, each [batch, length, heads · size]; keys and values may be split into heads.

    Not for packed inputs, and not for cache buffers that are longer than the sequence.
    """
    query, key, value, bias, mask, score_bias, past_key, past_value, *shared = (
        optional_input(node, index) for index in range(10)
    )
    graph, heads = build.graph, attributes(node)["num_heads"]
    width, rank = (graph.shape(query) or (None,))[-1], graph.rank(query)
    if not key or not value or any(shared) or any(node.output[3:]) or rank != 3 or not isinstance(width, int):
        return None
    ranks = {graph.rank(key), graph.rank(value)}
    depth = (graph.shape(value) or (None,))[-1]
    if ranks == {4} and isinstance(depth, int):
        depth *= heads
    if ranks not in ({3}, {4}) or not isinstance(depth, int) or (bias and ranks == {4}):
        return None
    q, k, v = query, key, value
    if bias:
        q, k, v = (
            build.op("Add", part, part_bias)
            for part, part_bias in zip((q, k, v), split(build, bias, [width, width, depth], 0), strict=True)
        )
    q = split_heads(build, q, heads, width // heads)
    if ranks == {3}:
        k, v = split_heads(build, k, heads, width // heads), split_heads(build, v, heads, depth // heads)
    if past_key:
        k, v = build.concat([past_key, k], 2), build.concat([past_value, v], 2)
    result = _attend(build, node, query, query, (q, k, v), mask, score_bias, width // heads, depth)
    return None if result is None else [result, k, v]


def _attend(
    build: Builder, node: onnx.NodeProto, like: str, rows: str, parts: tuple[str, str, str], mask: str,
    score_bias: str, size: int, depth: int,
) -> str | None:  # fmt: skip
    """The attention's result, [batch, length, depth]; None for a mask that is not supported.

    Args:
        build: takes the operators.
        node: for its scale, and whether it is causal.
        like: a value of the element type.
        rows: a value with the same batch.
        parts: queries, keys and values, each [batch, heads, length, size].
        mask: booleans or lengths; "" for none.
        score_bias: values to add to the scores; "" for none.
        size: the last extent of the queries.
        depth: the last extent of the result.
    """
    q, k, v = parts
    values = attributes(node)
    scale = values.get("scale") or 1 / math.sqrt(size)
    scores = build.op("MatMul", build.op("Mul", q, build.like(scale, like)), build.transpose(k, [0, 1, 3, 2]))
    if score_bias:
        scores = build.op("Add", scores, score_bias)
    if mask:
        allowed = _boolean_mask(build, mask, rows, k)
        if allowed is None:
            return None
        number = build.like(values.get("mask_filter_value", MASKED), like)
        scores = build.op("Add", scores, build.op("Where", allowed, build.like(0, like), number))
    if values.get("unidirectional"):
        lowest = build.like(np.finfo(build.graph.numpy_dtype(like)).min, like)
        scores = build.op("Where", _causal_mask(build, q, k), scores, lowest)
    result = build.op("MatMul", build.op("Softmax", scores, axis=-1), v)
    return build.reshape(build.transpose(result, [0, 2, 1, 3]), [0, 0, depth])


def _boolean_mask(build: Builder, mask: str, rows: str, keys: str) -> str | None:
    """A boolean mask of the keys, and of the queries if the mask has them; broadcasts to [batch, heads, queries, keys]."""
    shape, batch = build.graph.shape(mask), (build.graph.shape(rows) or (None,))[0]
    if shape is None:
        return None
    if len(shape) == 1:
        if shape[0] is None or shape[0] != batch:
            return None  # starts and ends, or ends of packed sequences
        # Not by a reshape: the batch dimension would lose its name.
        column = build.unsqueeze(build.cast(mask, TensorProto.INT64), [1, 2, 3])
        return build.op("Less", positions_of(build, keys, [1, 1, 1, -1]), column)
    if len(shape) > 3:
        return None  # padded to the maximum sequence length
    is_unmasked = build.op("Greater", mask, build.like(0, mask))
    return build.unsqueeze(is_unmasked, [1, 2] if len(shape) == 2 else [1])


def _causal_mask(build: Builder, queries: str, keys: str) -> str:
    """Whether a key is not after a query, [queries, keys]; the last query is at the last key's position."""
    rows, columns = length_of(build, queries), length_of(build, keys)
    offset = build.op("Sub", columns, rows)
    row = build.op("Add", positions_of(build, queries, [-1, 1]), offset)
    return build.op("Not", build.op("Greater", positions_of(build, keys, [1, -1]), row))


RULES: dict[str, Rule] = {
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantised_attention,
}
