"""Small networks of several parts in ONNX: an encoder-decoder with the names of optimum's exports, and a transducer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

FEATURES, FRAMES, CHANNELS, BLANK = 8, 40, 16, 0
CACHES = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
OPTIONS: dict[str, Any] = {"dynamo": False, "opset_version": 17}


def whisper() -> Any:
    """A network of transformers with random weights, large enough that greedy tokens vary."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(3)
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    positions = {"max_source_positions": FRAMES // 2, "max_target_positions": 64}
    tokens = {"vocab_size": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None, "decoder_start_token_id": 1}
    config = WhisperConfig(**heads, **sizes, **positions, **tokens, num_mel_bins=FEATURES, tie_word_embeddings=False)
    config._attn_implementation = "eager"
    model = WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.mul_(20 if "embed" in name else 8)
    return model


class _Encoder(torch.nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.model.model.encoder(features).last_hidden_state


class _Prefill(torch.nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model.model.decoder(input_ids=ids, encoder_hidden_states=hidden, use_cache=True)
        caches = result.past_key_values
        own, cross = caches.self_attention_cache.layers[0], caches.cross_attention_cache.layers[0]
        return self.model.proj_out(result.last_hidden_state), own.keys, own.values, cross.keys, cross.values


class _Decoder(torch.nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from transformers import DynamicCache, EncoderDecoderCache

        caches = EncoderDecoderCache(DynamicCache(), DynamicCache())
        caches.self_attention_cache.update(past[0], past[1], 0)
        caches.cross_attention_cache.update(past[2], past[3], 0)
        caches.is_updated[0] = True
        hidden = torch.zeros(1, past[2].shape[2], self.model.config.d_model)
        result = self.model.model.decoder(input_ids=ids, encoder_hidden_states=hidden, past_key_values=caches)
        own = caches.self_attention_cache.layers[0]
        return self.model.proj_out(result.last_hidden_state), own.keys, own.values


def write_whisper(directory: Path) -> None:
    """``encoder_model.onnx``, ``decoder_model.onnx`` and ``decoder_with_past_model.onnx``."""
    model = whisper()
    features, ids = torch.zeros(1, FEATURES, FRAMES), torch.tensor([[1, 2, 3]])
    encoder, prefill = _Encoder(model), _Prefill(model)
    hidden = encoder(features)
    presents, pasts = ([f"{name}.0.{cache}" for cache in CACHES] for name in ("present", "past_key_values"))
    tokens, frames, past = "decoder_sequence_length", "encoder_sequence_length", "past_decoder_sequence_length"
    lengths = {"input_ids": {1: tokens}, "encoder_hidden_states": {1: frames}, "logits": {1: tokens}}
    lengths |= {name: {2: tokens if ".decoder." in name else frames} for name in presents}
    steps = {name: {2: past if ".decoder." in name else f"{frames}_out"} for name in pasts}
    steps |= {name: {2: f"{past} + 1"} for name in presents[:2]}
    write = torch.onnx.export
    write(
        encoder,
        (features,),
        directory / "encoder_model.onnx",
        input_names=["input_features"],
        output_names=["last_hidden_state"],
        **OPTIONS,
    )
    write(prefill, (ids, hidden), directory / "decoder_model.onnx", input_names=["input_ids", "encoder_hidden_states"],
          output_names=["logits", *presents], dynamic_axes=lengths, **OPTIONS)  # fmt: skip
    write(_Decoder(model), (ids[:, :1], *prefill(ids, hidden)[1:]), directory / "decoder_with_past_model.onnx",
          input_names=["input_ids", *pasts], output_names=["logits", *presents[:2]], dynamic_axes=steps, **OPTIONS)  # fmt: skip


def features() -> np.ndarray:
    """A recording's features."""
    return np.random.default_rng(5).standard_normal((1, FEATURES, FRAMES)).astype("float32")


def whisper_greedy(prompt: Sequence[int], steps: int) -> list[int]:
    """The tokens that transformers chooses, each from the whole text."""
    model, tokens = whisper(), list(prompt)
    with torch.no_grad():
        for _ in range(steps):
            logits = model(input_features=torch.tensor(features()), decoder_input_ids=torch.tensor([tokens])).logits
            tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


class _Recurrent(torch.nn.Module):
    """An LSTM behind a layer for its inputs."""

    def __init__(self, first: torch.nn.Module):
        super().__init__()
        self.first, self.cell = first, torch.nn.LSTM(CHANNELS, CHANNELS, batch_first=True)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, (h, c) = self.cell(self.first(x), (h, c))
        return y, h, c


class _Joiner(torch.nn.Module):
    def __init__(self, tokens: int):
        super().__init__()
        self.last = torch.nn.Linear(CHANNELS, tokens)

    def forward(self, encoder_out: torch.Tensor, decoder_out: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(encoder_out + decoder_out))


def write_transducer(directory: Path, tokens: int = 24) -> None:
    """``encoder.onnx``, ``decoder.onnx`` and ``joiner.onnx``; the states of the first two have the same names and shapes."""
    torch.manual_seed(0)
    encoder = _Recurrent(torch.nn.Linear(FEATURES, CHANNELS)).eval()
    decoder, joiner = _Recurrent(torch.nn.Embedding(tokens, CHANNELS)).eval(), _Joiner(tokens).eval()
    with torch.no_grad():
        for network in (encoder, decoder, joiner):
            for weight in network.parameters():
                weight.mul_(4)
    state = torch.zeros(1, 1, CHANNELS)
    for network, name, first in (
        (encoder, "encoder", torch.zeros(1, 4, FEATURES)),
        (decoder, "decoder", torch.zeros(1, 1, dtype=torch.int64)),
    ):
        inputs = ["x" if name == "encoder" else "y", "h", "c"]
        torch.onnx.export(network, (first, state, state), directory / f"{name}.onnx", input_names=inputs,
                          output_names=[f"{name}_out", "h_next", "c_next"], **OPTIONS)  # fmt: skip
    row = torch.zeros(1, CHANNELS)
    torch.onnx.export(joiner, (row, row), directory / "joiner.onnx", input_names=["encoder_out", "decoder_out"], output_names=["logit"], **OPTIONS)  # fmt: skip
