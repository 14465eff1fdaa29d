"""The decoder of :mod:`decoder_forms` as PyTorch modules, with weights of the same names."""

import numpy as np
import torch
from decoder_forms import BASE, EPSILON, Sizes
from torch import Tensor, nn
from torch.nn import functional


class Decoder(nn.Module):
    """One new token; ``attend`` of a subclass keeps the cache."""

    def __init__(self, sizes: Sizes, weights: dict[str, np.ndarray]):
        super().__init__()
        self.sizes = sizes
        self.weights = nn.ParameterDict(
            {name.replace(".", "_"): torch.tensor(value) for name, value in weights.items()}
        )
        self.norm = nn.Parameter(torch.ones(sizes.width))
        frequencies = BASE ** -(torch.arange(0, sizes.channels, 2) / sizes.channels)
        self.register_buffer("frequencies", torch.cat([frequencies, frequencies]), persistent=False)

    def _weight(self, name: str) -> Tensor:
        return self.weights[name.replace(".", "_")]

    def _normalize(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, [self.sizes.width], self.norm, EPSILON)

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.view(1, 1, heads, self.sizes.channels).transpose(1, 2)

    def _rotate(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * cosines + torch.cat([-second, first], -1) * sines

    def decode(self, ids: Tensor, position: Tensor, cache: "list[Tensor]") -> Tensor:
        """The logits; ``cache`` has keys and values of each layer in turn."""
        sizes = self.sizes
        x = functional.embedding(ids, self._weight("token_embd"))
        angles = position.to(torch.float32)[:, None] * self.frequencies.float()
        angles = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in range(sizes.layers):
            block = f"blk.{layer}."
            y = self._normalize(x)
            q, k, v = (functional.linear(y, self._weight(f"{block}attn_{part}")) for part in "qkv")
            q, k = (self._rotate(self._heads(part, n), *angles) for part, n in ((q, sizes.heads), (k, sizes.groups)))
            y = self.attend(layer, q, k, self._heads(v, sizes.groups), position, cache)
            y = y.transpose(1, 2).reshape(1, 1, sizes.width)
            x = x + functional.linear(y, self._weight(f"{block}attn_output"))
            y = self._normalize(x)
            gate = functional.silu(functional.linear(y, self._weight(f"{block}ffn_gate")))
            y = gate * functional.linear(y, self._weight(f"{block}ffn_up"))
            x = x + functional.linear(y, self._weight(f"{block}ffn_down"))
        return functional.linear(self._normalize(x), self._weight("output"))

    def _repeat(self, x: Tensor) -> Tensor:
        sizes = self.sizes
        shape = (1, sizes.groups, sizes.heads // sizes.groups, x.shape[2], sizes.channels)
        return x[:, :, None].expand(shape).reshape(1, sizes.heads, -1, sizes.channels)


class ConcatenatingDecoder(Decoder):
    """Caches are arguments and results."""

    def forward(self, ids: Tensor, position: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        """The logits, then the caches with the new rows."""
        following = list(cache)
        return self.decode(ids, position, following), *following

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, position: Tensor, cache: "list[Tensor]") -> Tensor:
        """Attention over the cache with new rows behind it."""
        pair = slice(2 * layer, 2 * layer + 2)
        k, v = cache[pair] = [torch.cat([old, new], 2) for old, new in zip(cache[pair], (k, v), strict=True)]
        return functional.scaled_dot_product_attention(q, self._repeat(k), self._repeat(v))


class StaticDecoder(Decoder):
    """Caches are buffers of full size; attention is over all of them, with a mask."""

    def __init__(self, sizes: Sizes, weights: dict[str, np.ndarray]):
        super().__init__(sizes, weights)
        for layer in range(sizes.layers):
            for part in "kv":
                empty = torch.zeros(1, sizes.groups, sizes.capacity, sizes.channels)
                self.register_buffer(f"{part}{layer}", empty, persistent=False)

    def forward(self, ids: Tensor, position: Tensor) -> Tensor:
        """The logits."""
        cache = [getattr(self, f"{part}{layer}") for layer in range(self.sizes.layers) for part in "kv"]
        return self.decode(ids, position, cache)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, position: Tensor, cache: "list[Tensor]") -> Tensor:
        """Attention over the buffers, after the new rows are written into them."""
        keys, values = cache[2 * layer : 2 * layer + 2]
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        mask = (torch.arange(self.sizes.capacity, device=q.device) <= position)[None, None, None]
        return functional.scaled_dot_product_attention(q, self._repeat(keys), self._repeat(values), attn_mask=mask)
