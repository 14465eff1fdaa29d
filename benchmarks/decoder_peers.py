"""Other runtimes with the decoder of :mod:`decoder_forms`, one token at a time, on one thread."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime
from decoder_forms import CONCATENATED, GROUPED, SCATTERED, Sizes, write_gguf, write_onnx


class Peer(Protocol):
    """A decoder that keeps its cache."""

    def begin(self) -> None:
        """Empty the cache."""

    def run(self, token: int, position: int) -> np.ndarray:
        """The logits of the next token."""


def _session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _caches(sizes: Sizes, length: int) -> dict[str, np.ndarray]:
    shape = (1, sizes.groups, length, sizes.channels)
    return {f"{part}_{n}": np.zeros(shape, "float32") for n in range(sizes.layers) for part in ("key", "value")}


class FedBack:
    """ONNX Runtime whose caches grow by concatenation: outputs that are the next inputs."""

    def __init__(self, directory: Path, sizes: Sizes, weights: dict[str, np.ndarray]):
        file = directory / f"{CONCATENATED}.onnx"
        write_onnx(file, CONCATENATED, sizes, weights)
        self._session, self._sizes = _session(file), sizes
        self._names = [output.name for output in self._session.get_outputs()]
        self.begin()

    def begin(self) -> None:
        self._values = {f"past_{name}": value for name, value in _caches(self._sizes, 0).items()}

    def run(self, token: int, position: int) -> np.ndarray:
        logits, *caches = self._session.run(None, {"ids": np.array([[token]]), **self._values})
        self._values = dict(zip(self._values, caches, strict=True))
        return logits


class Shared:
    """ONNX Runtime whose caches have full size, each one buffer that is bound to the input and to the output.

    Args:
        form: how new rows are written, of :mod:`decoder_forms`.
    """

    def __init__(self, directory: Path, sizes: Sizes, weights: dict[str, np.ndarray], form: str):
        file = directory / f"{form}.onnx"
        write_onnx(file, form, sizes, weights)
        self._session = _session(file)
        self._binding = self._session.io_binding()
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in _caches(sizes, sizes.capacity).items()
        }
        for name, value in self._values.items():
            self._binding.bind_ortvalue_input(f"past_{name}", value)
            self._binding.bind_ortvalue_output(f"present_{name}", value)
        self._inputs = {"ids": np.zeros((1, 1), "int64"), "position": np.zeros(1, "int64")}
        self._inputs = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in self._inputs.items()}
        self._logits = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, 1, sizes.tokens), "float32"))
        for name, value in self._inputs.items():
            self._binding.bind_ortvalue_input(name, value)
        self._binding.bind_ortvalue_output("logits", self._logits)

    def begin(self) -> None:
        """Nothing: what is in the caches behind the position is not read."""

    def run(self, token: int, position: int) -> np.ndarray:
        self._inputs["ids"].update_inplace(np.array([[token]]))
        self._inputs["position"].update_inplace(np.array([position]))
        self._session.run_with_iobinding(self._binding)
        return self._logits.numpy()


class OpenVino:
    """OpenVINO with its caches as state variables, everything in float32."""

    def __init__(self, directory: Path, sizes: Sizes, weights: dict[str, np.ndarray]):
        import openvino
        import openvino.opset13
        import torch
        from decoder_torch import ConcatenatingDecoder
        from openvino._offline_transformations import apply_make_stateful_transformation

        caches = _caches(sizes, 1)
        example = (torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
        example = (*example, *map(torch.tensor, caches.values()))
        with torch.no_grad():
            model = openvino.convert_model(ConcatenatingDecoder(sizes, weights).eval(), example_input=example)
        for value, name in zip(model.inputs, ["ids", "position", *(f"past_{name}" for name in caches)], strict=True):
            value.get_tensor().set_names({name})
            if name in ("ids", "position"):
                value.get_node().set_partial_shape(openvino.PartialShape([1] * len(value.partial_shape)))
            else:
                value.get_node().set_partial_shape(openvino.PartialShape([1, sizes.groups, -1, sizes.channels]))
        beam = openvino.opset13.parameter([1], np.int32, name="beam_idx")  # without it, attention is not one operator
        beam.output(0).get_tensor().set_names({"beam_idx"})
        model.add_parameters([beam])
        for value in model.inputs[2:-1]:
            readers = value.get_target_inputs()
            chosen = openvino.opset13.gather(value, beam, openvino.opset13.constant(0, np.int32))
            for reader in readers:
                reader.replace_source_output(chosen.output(0))
        for value, name in zip(model.outputs, ["logits", *(f"present_{name}" for name in caches)], strict=True):
            value.get_tensor().set_names({name})
        model.validate_nodes_and_infer_types()
        apply_make_stateful_transformation(model, {f"past_{name}": f"present_{name}" for name in caches})
        opset = openvino.opset13
        shape = opset.constant(np.array([1, sizes.groups, 0, sizes.channels]))
        for operator in model.get_ops():
            if operator.get_type_name() == "ReadValue":
                operator.set_arguments([opset.broadcast(opset.constant(0.0, np.float32), shape)])
        model.validate_nodes_and_infer_types()
        settings = {
            "INFERENCE_NUM_THREADS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        self._compiled = openvino.Core().compile_model(model, "CPU", settings)
        self._request = self._compiled.create_infer_request()

    def begin(self) -> None:
        self._request.reset_state()

    def run(self, token: int, position: int) -> np.ndarray:
        inputs = {"ids": np.array([[token]]), "position": np.array([position]), "beam_idx": np.zeros(1, "int32")}
        return self._request.infer(inputs, share_outputs=True)["logits"]


class LlamaCpp:
    """llama.cpp, everything in float32, by its C functions (``llama_cpp.llama_cpp``)."""

    def __init__(self, directory: Path, sizes: Sizes, weights: dict[str, np.ndarray]):
        from llama_cpp import llama_cpp

        file = directory / "decoder.gguf"
        write_gguf(file, sizes, weights)
        self._c, self._tokens = llama_cpp, sizes.tokens
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch = sizes.capacity, 32
        options.n_threads = options.n_threads_batch = 1
        options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
        self._context = llama_cpp.llama_init_from_model(self._model, options)

    def begin(self) -> None:
        self._c.llama_memory_clear(self._c.llama_get_memory(self._context), True)

    def run(self, token: int, position: int) -> np.ndarray:
        tokens = (self._c.llama_token * 1)(token)
        assert self._c.llama_decode(self._context, self._c.llama_batch_get_one(tokens, 1)) == 0
        logits = self._c.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(logits, (self._tokens,)).copy()


PEERS: dict[str, Any] = {
    "onnxruntime-concatenated": FedBack,
    "onnxruntime-scattered": lambda *arguments: Shared(*arguments, SCATTERED),
    "onnxruntime-grouped": lambda *arguments: Shared(*arguments, GROUPED),
    "openvino": OpenVino,
    "llama.cpp": LlamaCpp,
}
