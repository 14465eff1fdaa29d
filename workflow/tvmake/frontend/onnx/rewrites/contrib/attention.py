"""ONNX Runtime's attention (domain ``com.microsoft``) as ONNX's own operators.

Masks are numbers that are added to the scores, as there: a row that is masked throughout becomes the softmax of its scores.
"""

import math

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.contrib.heads import by_heads, cut, length_of, places_of

MASKED = -10000.0
"""What is added to the score of a masked place, unless a node says otherwise."""


def attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Queries, keys and values by one product, attention, and keys and values together for the next step."""
    x, weights, bias, mask, past, added, length = (optional_input(node, at) for at in range(7))
    values = attributes(node)
    total = (build.graph.shape(weights) or (None, None))[1]
    sizes = values.get("qkv_hidden_sizes") or ([total // 3] * 3 if isinstance(total, int) else None)
    if sizes is None or length or values.get("do_rotary") or values.get("past_present_share_buffer"):
        return None
    projected = build.op("MatMul", x, weights)
    projected = build.op("Add", projected, bias) if bias else projected
    return _of_projected(node, build, x, x, projected, sizes, (mask, past, added))


def quantised_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """The same with the product in integers: of quantised inputs and weights, whose scales and zeros follow."""
    x, weights, bias, x_scale, weight_scale, mask, x_zero, weight_zero, past = (
        optional_input(node, at) for at in range(9)
    )
    total, values = (build.graph.shape(weights) or (None, None))[1], attributes(node)
    if not isinstance(total, int) or values.get("do_rotary") or values.get("past_present_share_buffer"):
        return None
    sums = build.cast(build.op("MatMulInteger", x, weights, x_zero, weight_zero), TensorProto.FLOAT)
    projected = build.op("Add", build.op("Mul", sums, build.op("Mul", x_scale, weight_scale)), bias)
    return _of_projected(node, build, bias, x, projected, [total // 3] * 3, (mask, past, ""))


def _of_projected(
    node: onnx.NodeProto, build: Builder, like: str, rows: str, projected: str, sizes: list[int],
    further: tuple[str, str, str],
) -> list[str] | None:  # fmt: skip
    """Attention and what is kept for the next step, of queries, keys and values side by side.

    Args:
        node: for its attributes and outputs.
        build: takes the operators.
        like: a value of the element type.
        rows: a value of the same batch.
        projected: [batch, length, all extents].
        sizes: how the last axis is divided.
        further: mask, keys and values of earlier steps, and what is added to the scores; "" for none.
    """
    (mask, past, added), heads = further, attributes(node)["num_heads"]
    q, k, v = (
        by_heads(build, part, heads, size // heads)
        for part, size in zip(cut(build, projected, sizes), sizes, strict=True)
    )
    if past:
        k, v = (
            build.concat([build.squeeze(build.slice(past, 0, at, at + 1), [0]), new], 2)
            for at, new in enumerate((k, v))
        )
    result = _attended(build, node, like, rows, (q, k, v), mask, added, sizes[0] // heads, sizes[2])
    if result is None:
        return None
    present = ""
    if len(node.output) > 1 and node.output[1]:
        present = build.concat([build.unsqueeze(k, [0]), build.unsqueeze(v, [0])], 0)
    return [result, present]


def multi_head_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Attention of queries, keys and values, each [batch, length, heads · size]; keys and values may be by heads already.

    Packed ones, and buffers longer than what they hold, are none of this.
    """
    query, key, value, bias, mask, added, past_key, past_value, *shared = (optional_input(node, at) for at in range(10))
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
            build.op("Add", part, of_bias)
            for part, of_bias in zip((q, k, v), cut(build, bias, [width, width, depth], 0), strict=True)
        )
    q = by_heads(build, q, heads, width // heads)
    if ranks == {3}:
        k, v = by_heads(build, k, heads, width // heads), by_heads(build, v, heads, depth // heads)
    if past_key:
        k, v = build.concat([past_key, k], 2), build.concat([past_value, v], 2)
    result = _attended(build, node, query, query, (q, k, v), mask, added, width // heads, depth)
    return None if result is None else [result, k, v]


def _attended(
    build: Builder, node: onnx.NodeProto, like: str, rows: str, parts: tuple[str, str, str], mask: str, added: str,
    size: int, depth: int,
) -> str | None:  # fmt: skip
    """What queries take of values, [batch, length, depth]; None for a mask that has no plain meaning.

    Args:
        build: takes the operators.
        node: for its scale, and whether it sees only what is before.
        like: a value of the element type.
        rows: a value of the same batch.
        parts: queries, keys and values, each [batch, heads, length, size].
        mask: truths or lengths; "" for none.
        added: numbers to add to the scores; "" for none.
        size: the queries' extent.
        depth: of what comes out.
    """
    q, k, v = parts
    values = attributes(node)
    scale = values.get("scale") or 1 / math.sqrt(size)
    scores = build.op("MatMul", build.op("Mul", q, build.like(scale, like)), build.transpose(k, [0, 1, 3, 2]))
    if added:
        scores = build.op("Add", scores, added)
    if mask:
        allowed = _allowed(build, mask, rows, k)
        if allowed is None:
            return None
        number = build.like(values.get("mask_filter_value", MASKED), like)
        scores = build.op("Add", scores, build.op("Where", allowed, build.like(0, like), number))
    if values.get("unidirectional"):
        lowest = build.like(np.finfo(build.graph.numpy_dtype(like)).min, like)
        scores = build.op("Where", _before(build, q, k), scores, lowest)
    taken = build.op("MatMul", build.op("Softmax", scores, axis=-1), v)
    return build.reshape(build.transpose(taken, [0, 2, 1, 3]), [0, 0, depth])


def _allowed(build: Builder, mask: str, rows: str, keys: str) -> str | None:
    """Which keys count, by queries where the mask has them: broadcast to [batch, heads, queries, keys]."""
    shape, batch = build.graph.shape(mask), (build.graph.shape(rows) or (None,))[0]
    if shape is None:
        return None
    if len(shape) == 1:
        if shape[0] is None or shape[0] != batch:
            return None  # starts and ends, or ends of packed sentences
        # Not by a reshape, behind which the batch would have no name.
        column = build.unsqueeze(build.cast(mask, TensorProto.INT64), [1, 2, 3])
        return build.op("Less", places_of(build, keys, [1, 1, 1, -1]), column)
    if len(shape) > 3:
        return None  # of the longest sentence that there may be
    truths = build.op("Greater", mask, build.like(0, mask))
    return build.unsqueeze(truths, [1, 2] if len(shape) == 2 else [1])


def _before(build: Builder, queries: str, keys: str) -> str:
    """Which keys are not behind a query, [queries, keys]; the last query is at the last key."""
    rows, columns = length_of(build, queries), length_of(build, keys)
    offset = build.op("Sub", columns, rows)
    row = build.op("Add", places_of(build, queries, [-1, 1]), offset)
    return build.op("Not", build.op("Greater", places_of(build, keys, [1, -1]), row))


RULES: dict[str, Rule] = {
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantised_attention,
}
