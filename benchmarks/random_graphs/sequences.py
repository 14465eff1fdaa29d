"""Steps on sequences (batch, positions, features): attention, recurrence, matmuls, embeddings."""

from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import Tensor, nn

from .images import divisors, is_float
from .network import Kind, Options

FEATURES = (1, 3, 4, 5, 8, 8, 12, 16)


def _is_sequence(x: Tensor) -> bool:
    return is_float(x, 3) and x.shape[1] <= 40 and 2 <= x.shape[2] <= 48


def _heads(rng: Random, x: Tensor) -> int:
    return rng.choice([number for number in divisors(x.shape[2]) if number <= 4])


def _self_attention(rng: Random, x: Tensor) -> Options | None:
    if not _is_sequence(x):
        return None
    return {"heads": _heads(rng, x), "is_causal": rng.random() < 0.3}


def _cross_attention(rng: Random, x: Tensor) -> Options | None:
    return {"heads": _heads(rng, x)} if _is_sequence(x) else None


def _is_memory(x: Tensor, y: Tensor) -> bool:
    return _is_sequence(y) and y.shape[0] == x.shape[0]


class _Attention(nn.Module):
    """Scaled dot product attention with its projections, as most networks write it."""

    def __init__(self, features: int, memory: int, heads: int, is_causal: bool = False, mask: str | None = None):
        super().__init__()
        self.query = nn.Linear(features, features)
        self.key, self.value = nn.Linear(memory, features, bias=False), nn.Linear(memory, features)
        self.heads, self.is_causal, self.mask = heads, is_causal, mask

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        y = x if y is None else y
        query, key, value = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (self.query(x), self.key(y), self.value(y))
        )
        mask: Any = None
        if self.mask is not None:
            mask = torch.ones(x.shape[1], y.shape[1], dtype=torch.bool).tril(1)
            mask = mask if self.mask == "boolean" else torch.zeros(mask.shape).masked_fill(~mask, -2.0)
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=self.is_causal)
        return found.transpose(1, 2).reshape(x.shape)


def _masked_attention(rng: Random, x: Tensor) -> Options | None:
    return {"heads": _heads(rng, x), "mask": rng.choice(("boolean", "added"))} if _is_sequence(x) else None


class _MultiHead(nn.Module):
    def __init__(self, features: int, heads: int, gives_weights: bool):
        super().__init__()
        self.inner = nn.MultiheadAttention(features, heads, batch_first=True)
        self.gives_weights = gives_weights

    def forward(self, x: Tensor) -> Tensor:
        found = self.inner(x, x, x, need_weights=self.gives_weights)
        return found[1] if self.gives_weights else found[0]


def _multi_head(rng: Random, x: Tensor) -> Options | None:
    return {"heads": _heads(rng, x), "gives_weights": rng.random() < 0.25} if _is_sequence(x) else None


def _encoder_layer(rng: Random, x: Tensor) -> Options | None:
    if not _is_sequence(x):
        return None
    return {"nhead": _heads(rng, x), "norm_first": rng.random() < 0.5, "activation": rng.choice(("relu", "gelu"))}


class _Recurrent(nn.Module):
    def __init__(self, module: type[nn.RNNBase], features: int, gives: str, **options: Any):
        super().__init__()
        self.inner = module(features, batch_first=True, **options)
        self.gives = gives

    def forward(self, x: Tensor) -> Tensor:
        sequence, state = self.inner(x)
        if self.gives == "sequence":
            return sequence
        return state[0] if isinstance(state, tuple) else state


def _recurrent(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3) or x.shape[1] > 12:
        return None
    return {
        "hidden_size": rng.choice((1, 3, 5, 8)),
        "num_layers": rng.choice((1, 1, 2)),
        "bidirectional": rng.random() < 0.4,
        "bias": rng.random() < 0.8,
        "gives": rng.choice(("sequence", "sequence", "state")),
    }


def _linear(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or x.dim() < 1:
        return None
    return {"out_features": rng.choice(FEATURES), "bias": rng.random() < 0.8}


def _layer_norm(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or x.dim() < 2 or x.shape[-1] < 4:
        return None
    return {"axes": rng.choice((1, 1, 1, x.dim() - 1)), "elementwise_affine": rng.random() < 0.8}


def _rms_norm(rng: Random, x: Tensor) -> Options | None:
    return {"eps": rng.choice((None, 1e-5))} if is_float(x) and x.dim() >= 2 and x.shape[-1] >= 2 else None


def _matmul_suits(x: Tensor, y: Tensor) -> bool:
    return (
        is_float(y)
        and min(x.dim(), y.dim()) >= 1
        and x.shape[-1] == y.shape[-1 if y.dim() == 1 else -2]
        and _broadcasts(x, y)
    )


def _broadcasts(x: Tensor, y: Tensor) -> bool:
    pairs = zip(reversed(x.shape[:-2]), reversed(y.shape[:-2]), strict=False)
    return all(left == right or 1 in (left, right) for left, right in pairs)


EQUATIONS = {
    2: ("ij->ji", "ij,kj->ik", "ij,ij->i", "ij->"),
    3: ("bij,bkj->bik", "bij,bij->bi", "bij,bkj->bk", "bij->bji", "bij,kij->bk"),
    4: ("bchw,bdhw->bcd", "bchw,bchw->bc", "nhwc,nhvc->nhwv", "bchw->bhwc", "bchw,bchw->bhw"),
}
"""By rank; the second operand is the first one turned over, so that it always fits."""


def _einsum(rng: Random, x: Tensor) -> Options | None:
    return {"equation": rng.choice(EQUATIONS[x.dim()])} if is_float(x, 2, 3, 4) else None


def _make_einsum(x: Tensor, equation: str) -> Any:
    if "," not in equation:
        return lambda value: torch.einsum(equation, value)
    return lambda value: torch.einsum(equation, value, value.flip(-1))


def _embedding(rng: Random, x: Tensor) -> Options | None:
    if x.dtype != torch.int64 or x.dim() > 3 or not x.numel() or x.min() < 0 or x.max() >= 50:
        return None
    return {"embedding_dim": rng.choice((4, 5, 8)), "padding_idx": rng.choice((None, None, 0))}


def _positions(rng: Random, x: Tensor) -> Options | None:
    return {} if _is_sequence(x) else None


class _Positions(nn.Module):
    """Adds the embeddings of positions, as transformers do."""

    def __init__(self, positions: int, features: int):
        super().__init__()
        self.table = nn.Embedding(positions + 3, features)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table(torch.arange(x.shape[1], device=x.device))


def _rotary(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    positions = torch.arange(x.shape[-2], dtype=torch.float32)
    angles = positions[:, None] * (10.0 ** (-torch.arange(half) / half))
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


def _of_last(module: Any) -> Any:
    return lambda x, **options: module(x.shape[-1], **options)


KINDS: dict[str, Kind] = {
    "linear": Kind(_linear, _of_last(nn.Linear), weight=2),
    "layer_norm": Kind(
        _layer_norm, lambda x, axes, **options: nn.LayerNorm(x.shape[x.dim() - axes :], **options), weight=1.5
    ),
    "rms_norm": Kind(_rms_norm, _of_last(nn.RMSNorm), weight=0.7),
    "self_attention": Kind(
        _self_attention, lambda x, **options: _Attention(x.shape[2], x.shape[2], **options), weight=2
    ),
    "masked_attention": Kind(
        _masked_attention, lambda x, **options: _Attention(x.shape[2], x.shape[2], **options), weight=1.5
    ),
    "cross_attention": Kind(
        _cross_attention, lambda x, y, **options: _Attention(x.shape[2], y.shape[2], **options), _is_memory, weight=1.5
    ),
    "multihead_attention": Kind(_multi_head, lambda x, **options: _MultiHead(x.shape[2], **options), weight=1.5),
    "encoder_layer": Kind(
        _encoder_layer,
        lambda x, **options: nn.TransformerEncoderLayer(x.shape[2], dim_feedforward=7, batch_first=True, **options),
    ),
    "lstm": Kind(_recurrent, lambda x, **options: _Recurrent(nn.LSTM, x.shape[2], **options)),
    "gru": Kind(_recurrent, lambda x, **options: _Recurrent(nn.GRU, x.shape[2], **options)),
    "rnn": Kind(_recurrent, lambda x, **options: _Recurrent(nn.RNN, x.shape[2], **options), weight=0.5),
    "matmul": Kind(
        lambda rng, x: {} if is_float(x) and x.dim() >= 1 else None,
        lambda x, y: torch.matmul,
        _matmul_suits,
        weight=1.5,
    ),
    "einsum": Kind(_einsum, _make_einsum),
    "embedding": Kind(_embedding, lambda x, **options: nn.Embedding(50, **options), weight=4),
    "positions": Kind(_positions, lambda x: _Positions(x.shape[1], x.shape[2]), weight=0.7),
    "rotary": Kind(
        lambda rng, x: {} if is_float(x, 3, 4) and x.shape[-1] % 2 == 0 else None, lambda x: _rotary, weight=0.6
    ),
}
"""By name."""
