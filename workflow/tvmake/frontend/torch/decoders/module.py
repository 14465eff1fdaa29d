"""A language model of transformers as a module of tokens, and of the keys and values of all earlier positions."""

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel  # type: ignore[import-not-found,unused-ignore]
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer  # type: ignore[import-not-found,unused-ignore]

from tvmake.errors import InputError
from tvmake.frontend.checkpoint import LOGITS, TOKENS
from tvmake.frontend.torch.exporting.named_inputs import NamedInputsModule

EXTENTS = 4
"""Axes of keys and values: batch, head, position, channel."""

POSITION = 2
"""The axis that grows."""


class PastLayer(DynamicLayer):  # type: ignore[misc,unused-ignore]
    """The keys and values of one layer, which may have no position yet."""

    def __init__(self, keys: Tensor, values: Tensor):
        super().__init__()
        self.keys, self.values = keys, values
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True

    def get_seq_length(self) -> int:
        """The number of positions. Unlike the original's, it does not distinguish an empty tensor, whose size is dynamic."""
        assert self.keys is not None
        return self.keys.shape[POSITION]


def named_module(model: PreTrainedModel, layers: int) -> nn.Module:
    """The model with an input for its tokens, and two for each layer; its outputs are the last position's logits, and both again."""
    names = [f"past_{kind}_{layer}" for layer in range(layers) for kind in ("key", "value")]
    return NamedInputsModule(model, [TOKENS, *names], _call)


def _call(model: PreTrainedModel, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    tokens, *past = inputs
    layers = [PastLayer(keys, values) for keys, values in zip(past[::2], past[1::2], strict=True)]
    cache = Cache(layers=[*layers])
    begin = past[0].shape[POSITION]
    positions = torch.arange(begin, begin + tokens.shape[1])[None]
    returned = model(input_ids=tokens, position_ids=positions, use_cache=True, **_with_cache(model, cache))
    results = {LOGITS: returned.logits[:, -1]}
    for layer, entry in enumerate(layers):
        results |= {f"present_key_{layer}": entry.keys, f"present_value_{layer}": entry.values}
    return results


def past_shapes(where: str, model: PreTrainedModel) -> list[tuple[torch.Size, torch.Size]]:
    """The shapes of each layer's keys and values after one token.

    Raises:
        InputError: the network keeps something else, or some layers keep nothing.
    """
    problem = f"the memory of {type(model).__name__} is not one key and one value for each layer and position"
    remedy = (
        "write a function that builds the module with its memory in buffers, and name that: `source: module:function`"
    )
    cache = DynamicCache()
    try:
        with torch.no_grad():
            model(input_ids=torch.zeros((1, 1), dtype=torch.int64), use_cache=True, **_with_cache(model, cache))
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        NotImplementedError,
    ) as error:  # it needs another kind of cache
        raise InputError(where, problem, remedy) from error
    kept = [(layer.keys, layer.values) for layer in cache.layers if type(layer) is DynamicLayer]
    shapes = [(keys.shape, values.shape) for keys, values in kept if keys is not None and values is not None]
    has_axes = all(len(shape) == EXTENTS for pair in shapes for shape in pair)
    if not shapes or len(shapes) != len(cache.layers) or not has_axes:
        raise InputError(where, problem, remedy)
    return shapes


def _with_cache(model: PreTrainedModel, cache: Cache) -> dict[str, object]:
    """Arguments of ``forward`` that pass a cache, and ask for the last position's logits alone if it can compute them alone."""
    names = inspect.signature(model.forward).parameters
    arguments: dict[str, object] = {"cache" if "cache" in names else "past_key_values": cache}
    if "logits_to_keep" in names:  # by an index, because the size of a slice would be checked in every run
        arguments["logits_to_keep"] = torch.full((1,), -1)
    return arguments
