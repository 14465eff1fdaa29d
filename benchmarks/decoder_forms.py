"""One Llama-like decoder in the forms in which runtimes take its cache: ONNX with three kinds of caches, and GGUF.

The weights are random and the same in all forms. Keys and values are [1, heads, length, channels].
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONCATENATED, SCATTERED, GROUPED = "concatenated", "scattered", "grouped"
FORMS = (CONCATENATED, SCATTERED, GROUPED)
"""Of ONNX: new keys behind the old ones, new keys written into a cache of full size, and ``GroupQueryAttention``."""

EPSILON = 1e-5
BASE = 10000.0


@dataclass(frozen=True)
class Sizes:
    """The decoder's sizes; it has about 26 million weights."""

    width: int = 576
    heads: int = 9
    groups: int = 3
    layers: int = 6
    hidden: int = 1536
    tokens: int = 4096
    capacity: int = 1024

    @property
    def channels(self) -> int:
        return self.width // self.heads


def random_weights(sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
    """Matrices [outputs, inputs], by the names of GGUF."""
    random = np.random.default_rng(seed)
    kept = sizes.groups * sizes.channels
    shapes = {"token_embd": (sizes.tokens, sizes.width), "output": (sizes.tokens, sizes.width)}
    for layer in range(sizes.layers):
        shapes |= {
            f"blk.{layer}.attn_q": (sizes.width, sizes.width),
            f"blk.{layer}.attn_k": (kept, sizes.width),
            f"blk.{layer}.attn_v": (kept, sizes.width),
            f"blk.{layer}.attn_output": (sizes.width, sizes.width),
            f"blk.{layer}.ffn_gate": (sizes.hidden, sizes.width),
            f"blk.{layer}.ffn_up": (sizes.hidden, sizes.width),
            f"blk.{layer}.ffn_down": (sizes.width, sizes.hidden),
        }
    return {name: random.normal(0, shape[1] ** -0.5, shape).astype("float32") for name, shape in shapes.items()}


def write_onnx(file: Path, form: str, sizes: Sizes, weights: dict[str, np.ndarray]) -> None:
    """The decoder with inputs ``ids``, ``position`` unless the form has none, and ``past_key_N`` and ``past_value_N``."""
    onnx.save(_Writer(form, sizes, weights).model(), file)


class _Writer:
    def __init__(self, form: str, sizes: Sizes, weights: dict[str, np.ndarray]):
        self._form, self._sizes, self._weights = form, sizes, weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def _op(self, kind: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        results = [f"v{len(self._nodes)}_{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, names, results, domain=domain, **attributes))
        return results[0] if outputs == 1 else results

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        array = np.asarray(value, "float32" if isinstance(value, float) else getattr(value, "dtype", "int64"))
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _normalize(self, x: str) -> str:
        squares = self._op("ReduceMean", self._op("Pow", x, 2.0), axes=[-1], keepdims=1)
        inverse = self._op("Div", 1.0, self._op("Sqrt", self._op("Add", squares, EPSILON)))
        return self._op("Mul", np.ones(self._sizes.width, "float32"), self._op("Mul", x, inverse))

    def _linear(self, x: str, name: str) -> str:
        return self._op("MatMul", x, self._weights[name].T)

    def _heads(self, x: str, heads: int) -> str:
        split = self._op("Reshape", x, [1, -1, heads, self._sizes.channels])
        return self._op("Transpose", split, perm=[0, 2, 1, 3])

    def _rotate(self, x: str) -> str:
        first, second = self._op("Split", x, outputs=2, axis=-1)
        turned = self._op("Concat", self._op("Neg", second), first, axis=-1)
        return self._op("Add", self._op("Mul", x, self._cosines), self._op("Mul", turned, self._sines))

    def _angles(self, positions: str) -> None:
        frequencies = _frequencies(self._sizes).astype("float32")
        angles = self._op("Mul", self._op("Unsqueeze", self._op("Cast", positions, to=1), [1]), frequencies[None])
        angles = self._op("Concat", angles, angles, axis=-1)
        self._cosines, self._sines = self._op("Cos", angles), self._op("Sin", angles)

    def _attend(self, layer: int, q: str, k: str, v: str) -> str:
        sizes = self._sizes
        past = [f"past_{part}_{layer}" for part in ("key", "value")]
        present = [f"present_{part}_{layer}" for part in ("key", "value")]
        if self._form == GROUPED:
            names = [q, k, v, *past, self._op("Cast", "position", to=TensorProto.INT32), self._total]
            node = helper.make_node(
                "GroupQueryAttention",
                [*names, self._table_cos, self._table_sin],
                [f"attended_{layer}", *present],
                domain="com.microsoft",
                num_heads=sizes.heads,
                kv_num_heads=sizes.groups,
                do_rotary=1,
            )
            self._nodes.append(node)
            return f"attended_{layer}"
        q, k, v = self._heads(q, sizes.heads), self._heads(k, sizes.groups), self._heads(v, sizes.groups)
        q, k = self._rotate(q), self._rotate(k)
        for old, new, name in zip(past, (k, v), present, strict=True):
            if self._form == CONCATENATED:
                node = helper.make_node("Concat", [old, new], [name], axis=2)
            else:
                node = helper.make_node("ScatterElements", [old, self._rows, new], [name], axis=2)
            self._nodes.append(node)
        q = self._op("Reshape", q, [1, sizes.groups, sizes.heads // sizes.groups, sizes.channels])
        scores = self._op("MatMul", q, self._op("Transpose", present[0], perm=[0, 1, 3, 2]))
        scores = self._op("Mul", scores, sizes.channels**-0.5)
        if self._form == SCATTERED:
            scores = self._op("Add", scores, self._mask)
        attended = self._op("MatMul", self._op("Softmax", scores, axis=-1), present[1])
        return self._op("Reshape", attended, [1, 1, sizes.width])

    def model(self) -> onnx.ModelProto:
        """The network for one new token."""
        sizes = self._sizes
        if self._form == GROUPED:
            angles = np.outer(np.arange(sizes.capacity), _frequencies(sizes))
            self._table_cos = self._constant(np.cos(angles).astype("float32"))
            self._table_sin = self._constant(np.sin(angles).astype("float32"))
            self._total = self._op(
                "Squeeze", self._op("Add", self._op("Cast", "position", to=6), np.array([1], "int32"))
            )
        elif self._form == SCATTERED:
            self._angles("position")
            self._rows = self._op(
                "Expand", self._op("Reshape", "position", [1, 1, 1, 1]), [1, sizes.groups, 1, sizes.channels]
            )
            allowed = self._op("LessOrEqual", np.arange(sizes.capacity), "position")
            self._mask = self._op("Where", allowed, 0.0, -1e9)
        else:
            length = self._op("Shape", "past_key_0", start=2, end=3)
            self._angles(length)
        x = self._op("Gather", self._weights["token_embd"], "ids")
        for layer in range(sizes.layers):
            block = f"blk.{layer}."
            y = self._normalize(x)
            q, k, v = (self._linear(y, f"{block}attn_{part}") for part in "qkv")
            x = self._op("Add", x, self._linear(self._attend(layer, q, k, v), f"{block}attn_output"))
            y = self._normalize(x)
            gate = self._linear(y, f"{block}ffn_gate")
            gate = self._op("Mul", gate, self._op("Sigmoid", gate))
            y = self._op("Mul", gate, self._linear(y, f"{block}ffn_up"))
            x = self._op("Add", x, self._linear(y, f"{block}ffn_down"))
        self._nodes.append(
            helper.make_node("MatMul", [self._normalize(x), self._constant(self._weights["output"].T)], ["logits"])
        )
        return self._assemble()

    def _assemble(self) -> onnx.ModelProto:
        sizes = self._sizes
        before, after = ("past", "total") if self._form == CONCATENATED else (sizes.capacity,) * 2
        inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 1])]
        if self._form != CONCATENATED:
            inputs.append(helper.make_tensor_value_info("position", TensorProto.INT64, [1]))
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, sizes.tokens])]
        for layer in range(sizes.layers):
            for part in ("key", "value"):
                shape = [1, sizes.groups, before, sizes.channels]
                inputs.append(helper.make_tensor_value_info(f"past_{part}_{layer}", TensorProto.FLOAT, shape))
                shape = [1, sizes.groups, after, sizes.channels]
                outputs.append(helper.make_tensor_value_info(f"present_{part}_{layer}", TensorProto.FLOAT, shape))
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _frequencies(sizes: Sizes) -> np.ndarray:
    return BASE ** -(np.arange(0, sizes.channels, 2) / sizes.channels)


def write_gguf(file: Path, sizes: Sizes, weights: dict[str, np.ndarray]) -> None:
    """The decoder for llama.cpp, in float32, without a vocabulary; needs the package ``gguf``."""
    import gguf

    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(sizes.capacity)
    writer.add_embedding_length(sizes.width)
    writer.add_block_count(sizes.layers)
    writer.add_feed_forward_length(sizes.hidden)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.groups)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    writer.add_rope_dimension_count(sizes.channels)
    writer.add_vocab_size(sizes.tokens)
    writer.add_tokenizer_model("no_vocab")
    for name, matrix in weights.items():
        heads = {"attn_q": sizes.heads, "attn_k": sizes.groups}.get(name.rpartition(".")[2])
        if heads:  # llama.cpp rotates neighbours, and the others halves
            matrix = matrix.reshape(heads, 2, sizes.channels // 2, -1).swapaxes(1, 2).reshape(matrix.shape)
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(matrix))
    ones = np.ones(sizes.width, "float32")
    for name in ("output_norm", *(f"blk.{n}.{part}_norm" for n in range(sizes.layers) for part in ("attn", "ffn"))):
        writer.add_tensor(f"{name}.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
