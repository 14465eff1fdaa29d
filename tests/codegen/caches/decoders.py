"""Decoders with caches that grow by concatenation, in the forms of exporters."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

HEADS, GROUPS, WIDTH, TOKENS = 4, 2, 16, 50
MODEL = HEADS * WIDTH

DIMS = {"past": {"max": 31}, "t": {"max": 8}}
"""A capacity of 39."""

STATE = {"k%d": "k%d_next", "v%d": "v%d_next"}


class Decoder:
    """A network of attention layers, written operator by operator.

    Args:
        is_stacked: one state each for keys and values, with an axis of layers.
        rows_first: a cache is [batch, rows, heads, width] rather than [batch, heads, rows, width].
        scales_keys: keys and queries are scaled before their product, as in exports of PyTorch's attention.
    """

    def __init__(
        self, *, layers: int = 2, is_stacked: bool = False, rows_first: bool = False, scales_keys: bool = False
    ):
        self.layers, self.is_stacked, self.rows_first, self.scales_keys = layers, is_stacked, rows_first, scales_keys
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def model(self) -> onnx.ModelProto:
        self._write()
        shape = ["past", GROUPS, WIDTH] if self.rows_first else [GROUPS, "past", WIDTH]
        grown = [f"{extent}_and_t" if extent == "past" else extent for extent in shape]
        stacks = [self.layers] if self.is_stacked else []
        numbers = [""] if self.is_stacked else range(self.layers)
        value = helper.make_tensor_value_info
        states = [f"{kind}{number}" for kind in "kv" for number in numbers]
        graph = helper.make_graph(
            self.nodes,
            "decoder",
            [
                value("ids", onnx.TensorProto.INT64, [1, "t"]),
                *(value(name, onnx.TensorProto.FLOAT, [*stacks, 1, *shape]) for name in states),
            ],
            [
                value("y", onnx.TensorProto.FLOAT, [1, "t", MODEL]),
                *(value(f"{name}_next", onnx.TensorProto.FLOAT, [*stacks, 1, *grown]) for name in states),
            ],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _write(self) -> None:
        x = self.add("Gather", self.weight(TOKENS, MODEL), "ids")
        grown: dict[str, list[str]] = {"k": [], "v": []}
        for number in range(self.layers):
            query = self.heads(self.add("MatMul", x, self.weight(MODEL, MODEL)), HEADS)
            query = self.add("Transpose", query, perm=[0, 2, 1, 3])
            caches = {}
            for kind in "kv":
                new = self.heads(self.add("MatMul", x, self.weight(MODEL, GROUPS * WIDTH)), GROUPS)
                new = new if self.rows_first else self.add("Transpose", new, perm=[0, 2, 1, 3])
                stacked = self.add("Gather", kind, self.constant(number), axis=0) if self.is_stacked else ""
                past = stacked or f"{kind}{number}"
                name = None if self.is_stacked else f"{kind}{number}_next"
                rows = self.add("Concat", past, new, output=name, axis=1 if self.rows_first else 2)
                grown[kind].append(rows)
                caches[kind] = self.add("Transpose", rows, perm=[0, 2, 1, 3]) if self.rows_first else rows
            keys, values = (self.repeat(caches[kind]) for kind in "kv")
            keys = self.add("Transpose", keys, perm=[0, 1, 3, 2])
            if self.scales_keys:
                scale = self.number(WIDTH**-0.25)
                scores = self.add("MatMul", self.add("Mul", query, scale), self.add("Mul", keys, scale))
            else:
                scores = self.add("Div", self.add("MatMul", query, keys), self.number(WIDTH**0.5))
            mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), values)
            mixed = self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), self.constant(1, -1, MODEL))
            x = self.add("Add", x, mixed)
        self.add("Tanh", x, output="y")
        if self.is_stacked:
            for kind, rows in grown.items():
                parts = [self.add("Unsqueeze", part, self.constant([0])) for part in rows]
                self.add("Concat", *parts, output=f"{kind}_next", axis=0)

    def heads(self, x: str, count: int) -> str:
        return self.add("Reshape", x, self.constant(1, -1, count, WIDTH))

    def repeat(self, rows: str) -> str:
        """Key and value heads for each group of queries' heads."""
        apart = self.add("Unsqueeze", rows, self.constant([2]))
        wide = self.add("Expand", apart, self.constant(1, GROUPS, HEADS // GROUPS, 1, WIDTH))
        return self.add("Reshape", wide, self.constant(1, HEADS, -1, WIDTH))

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        name = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        scale = shape[0] ** -0.5 if shape[0] == MODEL else 1
        return self._store((self._random.normal(size=shape) * scale).astype("float32"))

    def number(self, value: float) -> str:
        return self._store(np.array(value, "float32"))

    def constant(self, *values: int | list[int]) -> str:
        return self._store(np.array(values[0] if len(values) == 1 else values, "int64"))

    def _store(self, value: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name
