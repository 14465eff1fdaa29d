"""Small decoders for tests: one in ONNX, with the names of optimum's exports, and directories of transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, CONTEXT = 24, 8, 64

SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "gemma": {"num_key_value_heads": 1, "head_dim": 8, "tie_word_embeddings": False},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "tie_word_embeddings": False},
}
"""What the configs of architectures have in addition; with tied embeddings, random networks repeat one token."""


def write_onnx_decoder(file: Path, *, has_positions: bool = False) -> None:
    """One layer of causal attention with an empty past at the beginning; greedy tokens vary."""
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    constants = {
        "table": random.standard_normal((VOCABULARY, WIDTH)).astype("float32"),
        "rows": random.standard_normal((CONTEXT, WIDTH)).astype("float32"),
        **{name: (2 * random.standard_normal((WIDTH, WIDTH))).astype("float32") for name in ("wq", "wk", "wv")},
        "head": (3 * random.standard_normal((WIDTH, VOCABULARY))).astype("float32"),
        "one": np.array([1]), "zero": np.array(0), "step": np.array(1), "two": np.array(2),
        "low": np.array(-1e4, "float32"), "allowed": np.array(0, "float32"), "unit": np.array(1, "float32"),
        "front": np.array([1, 2]), "axes": np.array([0, 1, 2]),
    }  # fmt: skip

    def emit(operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"t{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    x = emit("Gather", "table", "input_ids")
    if has_positions:
        x = emit("Add", x, emit("Gather", "rows", "position_ids"))
    q, k, v = (emit("Unsqueeze", emit("MatMul", x, name), "one") for name in ("wq", "wk", "wv"))
    key = emit("Concat", "past_key_values.0.key", k, output="present.0.key", axis=2)
    value = emit("Concat", "past_key_values.0.value", v, output="present.0.value", axis=2)
    past, total = (emit("Gather", emit("Shape", name), "two") for name in ("past_key_values.0.key", key))
    queries = emit("Unsqueeze", emit("Range", past, total, "step"), "one")
    keys = emit("Unsqueeze", emit("Range", "zero", total, "step"), "zero0")
    constants["zero0"] = np.array([0])
    causal = emit("Where", emit("LessOrEqual", keys, queries), "allowed", "low")
    mask = emit("Mul", emit("Sub", "unit", emit("Cast", "attention_mask", to=TensorProto.FLOAT)), "low")
    scores = emit("MatMul", q, emit("Transpose", key, perm=[0, 1, 3, 2]))
    scores = emit("Add", emit("Add", scores, causal), emit("Unsqueeze", mask, "front"))
    attended = emit("Squeeze", emit("MatMul", emit("Softmax", scores, axis=-1), value), "one")
    emit("MatMul", emit("Add", x, attended), "head", output="logits")
    row, cache = ["batch_size", "sequence_length"], ["batch_size", 1, "past_sequence_length", WIDTH]
    grown = ["batch_size", 1, "past_sequence_length + sequence_length", WIDTH]
    integer, real, value_info = TensorProto.INT64, TensorProto.FLOAT, helper.make_tensor_value_info
    inputs = [value_info("input_ids", integer, row), value_info("attention_mask", integer, ["batch_size", grown[2]])]
    inputs += [value_info("position_ids", integer, row)] if has_positions else []
    inputs += [value_info(f"past_key_values.0.{kind}", real, cache) for kind in ("key", "value")]
    outputs = [value_info("logits", real, [*row, VOCABULARY])]
    outputs += [value_info(f"present.0.{kind}", real, grown) for kind in ("key", "value")]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)


def write_onnx_config(directory: Path) -> None:
    """The config.json beside an ONNX decoder."""
    known = {"model_type": "llama", "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT}
    (directory / "config.json").write_text(json.dumps(known))


def onnx_greedy(file: Path, prompt: list[int], steps: int) -> list[int]:
    """The tokens that ONNX Runtime chooses, each from the whole text."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = {entry.name for entry in session.get_inputs()}
    tokens = list(prompt)
    for _ in range(steps):
        feeds = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, len(tokens)), "int64")}
        feeds |= {f"past_key_values.0.{kind}": np.zeros((1, 1, 0, WIDTH), "float32") for kind in ("key", "value")}
        feeds |= {"position_ids": np.arange(len(tokens))[None]} if "position_ids" in names else {}
        tokens.append(int(np.asarray(session.run(["logits"], feeds)[0])[0, -1].argmax()))
    return tokens[len(prompt) :]


def write_language_model(directory: Path, kind: str, **sizes: Any) -> None:
    """A directory of transformers with random weights, large enough that greedy tokens vary."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SIZES, **CONFIGS.get(kind, {}), **sizes}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.mul_(20 if "embed" in name or "wte" in name else 8)
    model.save_pretrained(directory)


def write_tokenizer(directory: Path, tokens: int) -> None:
    """A tokenizer.json of words ``w0``, ``w1``, …"""
    model = {"type": "WordLevel", "vocab": {f"w{number}": number for number in range(tokens)}, "unk_token": "w0"}
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    values = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model, **parts}
    (directory / "tokenizer.json").write_text(json.dumps(values))


def greedy(directory: Path, prompt: list[int], steps: int) -> list[int]:
    """The tokens that transformers' own ``generate`` chooses."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    options = {"max_new_tokens": steps, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    return model.generate(torch.tensor([prompt]), **options)[0, len(prompt) :].tolist()
