"""Rewrite rotary position embeddings (domain ``com.microsoft``) to ONNX's own operators."""

import onnx

from tvmake.frontend.onnx.graph import Builder, Rule, attributes
from tvmake.frontend.onnx.rewrites.contrib.heads import positions_of, split, split_heads


def rotary_embedding(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Rotate pairs of values by the angles in a table; positions are explicit, or follow a first one."""
    x, positions, cosines, sines = node.input
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
        x = split_heads(build, x, width // size, size)
    elif isinstance(width, int):
        size = width
    else:
        return None
    if graph.rank(positions) == 1:
        positions = build.op("Add", positions_of(build, x, [1, -1]), positions)
    result = rotate(build, x, (positions, cosines, sines), half, size, bool(values.get("interleaved")))
    return [build.reshape(build.transpose(result, [0, 2, 1, 3]), [0, 0, width]) if len(shape) == 3 else result]


def rotate(build: Builder, x: str, angles: tuple[str, str, str], half: int, size: int, is_interleaved: bool) -> str:
    """Rotate pairs of the first ``2 * half`` values of the last axis.

    Args:
        build: takes the operators.
        x: [batch, heads, length, size].
        angles: positions [batch, length], and the tables of cosines and sines.
        half: the number of pairs.
        size: the last extent of ``x``.
        is_interleaved: whether a pair is two adjacent values; else its values are ``half`` apart.
    """
    positions, cosines, sines = angles
    rotated, rest = split(build, x, [2 * half, size - 2 * half], 3) if size > 2 * half else (x, "")
    cosine, sine = (build.unsqueeze(build.op("Gather", table, positions), [1]) for table in (cosines, sines))
    if is_interleaved:
        first, second = (build.slice(rotated, 3, start, 2 * half, 2) for start in range(2))
    else:
        first, second = split(build, rotated, [half, half], 3)
    real = build.op("Sub", build.op("Mul", first, cosine), build.op("Mul", second, sine))
    imaginary = build.op("Add", build.op("Mul", first, sine), build.op("Mul", second, cosine))
    if is_interleaved:
        pairs = build.concat([build.unsqueeze(real, [4]), build.unsqueeze(imaginary, [4])], 4)
        result = build.op("Reshape", pairs, build.ints([0, 0, 0, 2 * half]))
    else:
        result = build.concat([real, imaginary], 3)
    return build.concat([result, rest], 3) if rest else result


RULES: dict[str, Rule] = {"RotaryEmbedding": rotary_embedding}
