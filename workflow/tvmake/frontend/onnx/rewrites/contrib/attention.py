"""ONNX Runtime's attention (domain ``com.microsoft``) as ONNX's own operators.

Masks are numbers that are added to the scores, as there: a row that is masked throughout becomes the softmax of its scores.
"""

import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, attributes, optional_input

Rule = Callable[[onnx.NodeProto, Builder], list[str] | None]

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
    heads = values["num_heads"]
    projected = build.op("MatMul", x, weights)
    projected = build.op("Add", projected, bias) if bias else projected
    q, k, v = (
        _by_heads(build, part, heads, size // heads)
        for part, size in zip(_parts(build, projected, sizes), sizes, strict=True)
    )
    if past:
        k, v = (
            build.concat([build.squeeze(build.slice(past, 0, at, at + 1), [0]), new], 2)
            for at, new in enumerate((k, v))
        )
    result = _attended(build, node, x, (q, k, v), mask, added, sizes[0] // heads, sizes[2])
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
            for part, of_bias in zip((q, k, v), _parts(build, bias, [width, width, depth], 0), strict=True)
        )
    q = _by_heads(build, q, heads, width // heads)
    if ranks == {3}:
        k, v = _by_heads(build, k, heads, width // heads), _by_heads(build, v, heads, depth // heads)
    if past_key:
        k, v = build.concat([past_key, k], 2), build.concat([past_value, v], 2)
    result = _attended(build, node, query, (q, k, v), mask, added, width // heads, depth)
    return None if result is None else [result, k, v]


def _parts(build: Builder, name: str, sizes: list[int], axis: int = 2) -> list[str]:
    """A value cut along an axis."""
    ends = np.cumsum(sizes).tolist()
    return [build.slice(name, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _by_heads(build: Builder, name: str, heads: int, size: int) -> str:
    """[batch, length, heads · size] as [batch, heads, length, size]."""
    return build.transpose(build.reshape(name, [0, 0, heads, size]), [0, 2, 1, 3])


def _attended(
    build: Builder, node: onnx.NodeProto, like: str, parts: tuple[str, str, str], mask: str, added: str, size: int,
    depth: int,
) -> str | None:  # fmt: skip
    """What queries take of values, [batch, length, depth]; None for a mask that has no plain meaning.

    Args:
        build: takes the operators.
        node: for its scale, and whether it sees only what is before.
        like: a value of the element type.
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
        allowed = _allowed(build, mask, like, k)
        if allowed is None:
            return None
        number = build.like(values.get("mask_filter_value", MASKED), like)
        scores = build.op("Add", scores, build.op("Where", allowed, build.like(0, like), number))
    if values.get("unidirectional"):
        lowest = build.like(np.finfo(build.graph.numpy_dtype(like)).min, like)
        scores = build.op("Where", _before(build, q, k), scores, lowest)
    taken = build.op("MatMul", build.op("Softmax", scores, axis=-1), v)
    return build.reshape(build.transpose(taken, [0, 2, 1, 3]), [0, 0, depth])


def _allowed(build: Builder, mask: str, like: str, keys: str) -> str | None:
    """Which keys count, by queries where the mask has them: broadcast to [batch, heads, queries, keys]."""
    shape, batch = build.graph.shape(mask), (build.graph.shape(like) or (None,))[0]
    if shape is None:
        return None
    if len(shape) == 1:
        if shape[0] is None or shape[0] != batch:
            return None  # starts and ends, or ends of packed sentences
        # Not by a reshape, behind which the batch would have no name.
        column = build.unsqueeze(build.cast(mask, TensorProto.INT64), [1, 2, 3])
        return build.op("Less", _places(build, keys, [1, 1, 1, -1]), column)
    if len(shape) > 3:
        return None  # of the longest sentence that there may be
    truths = build.op("Greater", mask, build.like(0, mask))
    return build.unsqueeze(truths, [1, 2] if len(shape) == 2 else [1])


def _before(build: Builder, queries: str, keys: str) -> str:
    """Which keys are not behind a query, [queries, keys]; the last query is at the last key."""
    rows, columns = _length(build, queries), _length(build, keys)
    offset = build.op("Sub", columns, rows)
    row = build.op("Add", _places(build, queries, [-1, 1]), offset)
    return build.op("Not", build.op("Greater", _places(build, keys, [1, -1]), row))


def _places(build: Builder, name: str, shape: list[int]) -> str:
    """0, 1 … along the third axis of a value."""
    zero, one = build.const(0, np.int64), build.const(1, np.int64)
    return build.reshape(build.op("Range", zero, build.reshape(_length(build, name), []), one), shape)


def _length(build: Builder, name: str) -> str:
    """The extent of the third axis, [1]."""
    return build.slice(build.op("Shape", name), 0, 2, 3)


def rotary_embedding(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Pairs of numbers turned by angles of a table, at places that count from a first one or are given."""
    x, places, cosines, sines = node.input
    values = attributes(node)
    graph = build.graph
    shape, half = graph.shape(x), (graph.shape(cosines) or (None, None))[1]
    heads = values.get("num_heads", 0)
    if (
        shape is None
        or not isinstance(half, int)
        or values.get("is_packed_batching")
        or values.get("scale", 1.0) != 1.0
    ):
        return None
    width = shape[-1]
    if len(shape) == 3:
        partial = values.get("rotary_embedding_dim", 0)
        if not isinstance(width, int) or (partial and not heads):
            return None
        size = width // heads if heads else 2 * half
        x = _by_heads(build, x, width // size, size)
    elif isinstance(width, int):
        size = width
    else:
        return None
    if graph.rank(places) == 1:
        places = build.op("Add", _places(build, x, [1, -1]), places)
    result = _turned(build, x, (places, cosines, sines), half, size, bool(values.get("interleaved")))
    return [build.reshape(build.transpose(result, [0, 2, 1, 3]), [0, 0, width]) if len(shape) == 3 else result]


def _turned(build: Builder, x: str, by: tuple[str, str, str], half: int, size: int, is_interleaved: bool) -> str:
    """Pairs of the first ``2 * half`` numbers of [batch, heads, length, size], turned by places [batch, length] in tables."""
    places, cosines, sines = by
    turned, rest = _parts(build, x, [2 * half, size - 2 * half], 3) if size > 2 * half else (x, "")
    cosine, sine = (build.unsqueeze(build.op("Gather", table, places), [1]) for table in (cosines, sines))
    if is_interleaved:
        first, second = (build.slice(turned, 3, at, 2 * half, 2) for at in range(2))
    else:
        first, second = _parts(build, turned, [half, half], 3)
    real = build.op("Sub", build.op("Mul", first, cosine), build.op("Mul", second, sine))
    imaginary = build.op("Add", build.op("Mul", first, sine), build.op("Mul", second, cosine))
    if is_interleaved:
        pairs = build.concat([build.unsqueeze(real, [4]), build.unsqueeze(imaginary, [4])], 4)
        result = build.op("Reshape", pairs, build.ints([0, 0, 0, 2 * half]))
    else:
        result = build.concat([real, imaginary], 3)
    return build.concat([result, rest], 3) if rest else result


def group_query_attention(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Attention where several queries' heads share keys and values, which stand behind those of the steps before.

    Each sentence has a length of its own: its new keys stand behind its old ones, wherever these end. Sinks, smoothed
    softmaxes, scores as outputs and caches in integers are none of this.
    """
    query, key, value, past_key, past_value, lengths, total, cosines, sines, positions, added, *others = (
        optional_input(node, at) for at in range(14)
    )
    values = attributes(node)
    like = node.input[0]
    heads, kept = values["num_heads"], values["kv_num_heads"]
    width, half = (build.graph.shape(query) or (None,))[-1], (build.graph.shape(cosines) or (None, None))[1]
    is_other = any(others) or any(node.output[3:]) or values.get("smooth_softmax", -1) > 0
    is_quantised = any(values.get(f"{part}_quant_type", "NONE") != "NONE" for part in "kv")
    if not isinstance(width, int) or not past_key or is_other or is_quantised or bool(key) != bool(value):
        return None
    size = width // (heads if key else heads + 2 * kept)
    if not key:
        query, key, value = _parts(build, query, [heads * size, kept * size, kept * size])
    q, k, v = (_by_heads(build, part, n, size) for part, n in ((query, heads), (key, kept), (value, kept)))
    new = _length(build, q)
    zero, one = build.ints([0]), build.ints([1])
    before = build.op("Sub", build.op("Add", build.cast(build.reshape(lengths, [-1]), TensorProto.INT64), one), new)
    before = build.unsqueeze(build.op("Max", before, zero), [1])  # [batch, 1]; the first steps may be filled up
    own = build.op("Add", _places(build, q, [1, -1]), before)  # [batch, new]
    if values.get("do_rotary"):
        if not isinstance(half, int):
            return None
        by = (positions or own, cosines, sines)
        q, k = (_turned(build, x, by, half, size, bool(values.get("rotary_interleaved"))) for x in (q, k))
    old = _length(build, past_key)
    end = build.op("Max", old, build.cast(build.reshape(total, [1]), TensorProto.INT64))
    columns = build.reshape(
        build.op("Range", build.const(0, np.int64), build.reshape(end, []), build.const(1, np.int64)), [1, -1]
    )
    last = build.op("Add", before, new)
    place = build.op(
        "Where", build.op("Less", columns, before), columns, build.op("Add", old, build.op("Sub", columns, before))
    )
    place = build.op("Min", place, build.op("Sub", build.op("Add", old, new), one))
    is_there = build.unsqueeze(build.op("Less", columns, last), [1, 3])
    present = []
    for past, more in ((past_key, k), (past_value, v)):
        every = build.concat([past, more], 2)
        extents = build.op("Shape", every)
        shape = build.concat([build.slice(extents, 0, 0, 2), end, build.slice(extents, 0, 3, 4)], 0)
        index = build.op("Expand", build.unsqueeze(place, [1, 3]), shape)
        taken = build.op("GatherElements", every, index, axis=2)
        present.append(build.op("Where", is_there, taken, build.like(0, like)))
    groups = [0, kept, heads // kept, -1, size]
    q = build.op("Mul", build.reshape(q, groups), build.like(values.get("scale") or 1 / math.sqrt(size), like))
    keys, rows = (build.unsqueeze(each, [2]) for each in present)
    scores = build.op("MatMul", q, build.transpose(keys, [0, 1, 2, 4, 3]))
    if softcap := values.get("softcap"):
        scores = build.op(
            "Mul", build.op("Tanh", build.op("Div", scores, build.like(softcap, like))), build.like(softcap, like)
        )
    if added:
        of_heads = (build.graph.shape(added) or (None, None))[1]
        if of_heads not in (1, heads):
            return None
        spread = (
            build.unsqueeze(added, [1])
            if of_heads == 1
            else build.op(
                "Reshape",
                added,
                build.concat(
                    [
                        build.slice(build.op("Shape", added), 0, 0, 1),
                        build.ints([kept, heads // kept]),
                        build.slice(build.op("Shape", added), 0, 2, 4),
                    ],
                    0,
                ),
            )
        )
        scores = build.op("Add", scores, spread)
    own = build.unsqueeze(own, [2])  # [batch, new, 1]
    allowed = build.op("Not", build.op("Greater", build.unsqueeze(columns, [1]), own))
    if (window := values.get("local_window_size", -1)) > 0:
        near = build.op("Greater", build.unsqueeze(columns, [1]), build.op("Sub", own, build.ints([window])))
        allowed = build.op("And", allowed, near)
    lowest = build.like(np.finfo(build.graph.numpy_dtype(like)).min, like)
    scores = build.op("Where", build.unsqueeze(allowed, [1, 2]), scores, lowest)
    result = build.reshape(build.op("MatMul", build.op("Softmax", scores, axis=-1), rows), [0, heads, -1, size])
    return [build.reshape(build.transpose(result, [0, 2, 1, 3]), [0, 0, heads * size]), *present]


RULES: dict[str, Rule] = {
    "Attention": attention,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "RotaryEmbedding": rotary_embedding,
}
