"""Reduce the default configs of Transformers' architectures to small ones, by general rules.

What a config calls the width, the depth or the number of heads has a few dozen names; all of them are set. Where the network cannot be built
so, the sizes that follow from others are unchanged, then all but depths and vocabularies.
"""

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

MOST_PARAMETERS = 60_000_000

WIDTH, DEPTH, HEADS, INNER = 32, 2, 4, 64

COUNTS: dict[str, int] = {
    **dict.fromkeys(
        (
            "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_encoder_layers",
            "num_decoder_layers", "depth",
        ),
        DEPTH,
    ),
    **dict.fromkeys(("n_routed_experts", "num_experts", "num_local_experts"), 4),
    "encoder_layerdrop": 0, "vocab_size": 100, "vocab_size_per_layer_input": 100, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "cls_token_id": 1, "sep_token_id": 2,
}  # fmt: skip
"""Depths, and what does not depend on widths."""

WIDTHS: dict[str, int] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "n_embed", "embed_dim", "width", "attention_dim", "decoder_hidden_size", "lru_width"),
        WIDTH,
    ),
    **dict.fromkeys(
        (
            "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads",
            "attention_heads", "num_conv_pos_embedding_groups",
        ),
        HEADS,
    ),
    **dict.fromkeys(
        (
            "intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "n_inner", "mlp_dim",
            "image_size", "max_position_embeddings", "n_positions",
        ),
        INNER,
    ),
    "patch_size": 8, "projection_dim": 16, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "num_experts_per_tok": 2,
    "kv_lora_rank": 16, "max_source_positions": 50, "num_mel_bins": 80, "num_conv_pos_embeddings": 16, "hidden_size_per_layer_input": 16,
}  # fmt: skip
"""Sizes."""

FOLLOWING: dict[str, int] = {
    **dict.fromkeys(("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "state_size", "d_kv", "head_size", "global_head_dim"), 8),
    "num_key_value_heads": 2, "q_lora_rank": 16, "encoder_hidden_size": WIDTH, "embedding_size": 16,
}  # fmt: skip
"""Sizes that some architectures compute of the others."""

LISTS: dict[str, Callable[[int], int]] = {
    "conv_dim": lambda _size: 16,
    "depths": lambda _depth: 1,
    **dict.fromkeys(
        ("hidden_sizes", "embed_dims", "out_channels_list", "neck_hidden_sizes"),
        lambda size: max(8, min(size // 8, WIDTH) // 8 * 8),
    ),
}
"""What becomes of each entry of a list."""

OFF = ("use_cache", "return_loss", "use_timm_backbone", "use_pretrained_backbone")

RESULTS = ("logits", "last_hidden_state", "pred_boxes", "image_embeds", "prediction_outputs", "audio_values")
"""The tensors of a result to take, the first that there is."""


def network(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """An architecture of ``AutoModel``, as small as it gets, and inputs that it takes.

    Raises:
        Exception: whatever transformers says of the config made small.
    """
    errors: list[Exception] = []
    for sizes in ({**COUNTS, **WIDTHS, **FOLLOWING}, {**COUNTS, **WIDTHS}, COUNTS):
        try:
            return _built(name, sizes)
        except Exception as error:  # noqa: BLE001  # configs that do not fit end in any way
            errors.append(error)
    raise errors[0]


def _built(name: str, sizes: dict[str, int]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    config = getattr(transformers, CONFIG_MAPPING_NAMES[name])()
    for part in _parts(config):
        _shrink(part, sizes)
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in transformers.AutoModel.from_config(config).parameters())
    if parameters > MOST_PARAMETERS:
        raise MemoryError(f"{name} has {parameters / 1e6:.0f} million parameters")
    torch.manual_seed(0)
    module = transformers.AutoModel.from_config(config).eval()
    for parameter in module.parameters():
        if parameter.dim() > 1 and parameter.is_floating_point() and not parameter.any():
            nn.init.normal_(parameter, std=0.05)  # zeros hide what they are multiplied with
    return _with_inputs(module, config)


def _parts(config: Any) -> Iterator[Any]:
    """A config and those in it."""
    import transformers

    yield config
    for value in list(vars(config).values()):
        if isinstance(value, transformers.PretrainedConfig):
            yield from _parts(value)


def _shrink(config: Any, sizes: dict[str, int]) -> None:
    for key, value in list(vars(config).items()):
        if key in OFF:
            setattr(config, key, False)
        elif isinstance(value, int) and not isinstance(value, bool) and value > sizes.get(key, value):
            setattr(config, key, sizes[key])
        elif key == "layer_types" and isinstance(value, list):
            kinds = list(dict.fromkeys(value))  # one layer of each kind, as far as there are layers
            depth = getattr(config, "num_hidden_layers", DEPTH)
            config.layer_types = (kinds * depth)[:depth]
        elif sizes is not COUNTS and key in LISTS and _are_integers(value):
            setattr(config, key, [LISTS[key](one) for one in value])


def _are_integers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, int) for one in value)


def _with_inputs(module: nn.Module, config: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model that takes the first inputs which it can compute something of."""
    taken = inspect.signature(module.forward).parameters
    examples = _examples(config)
    main = (
        module.main_input_name
        if module.main_input_name in taken
        else next(example for example in examples if example in taken)
    )
    others = [one for one in ("bbox", "decoder_input_ids", "pixel_values", "input_ids") if one in taken and one != main]
    combinations = [
        *([main, other] for other in others[:1]),
        [main],
        *([main, other] for other in others[1:]),
        *([other] for other in others),
    ]
    errors: list[Exception] = []
    for names in combinations:
        try:
            inputs = tuple(examples[name]() for name in names)
            found = _OneResult(module, names).eval()
            with torch.no_grad():
                found(*inputs)
        except Exception as error:  # noqa: BLE001  # inputs that do not fit end in any way
            errors.append(error)
        else:
            return found, inputs
    raise errors[0]


def _examples(config: Any) -> dict[str, Callable[[], Tensor]]:
    """Inputs by the argument's name."""

    def size(key: str, usual: int) -> int:
        parts = [getattr(config, name, None) for name in ("vision_config", "audio_config", "backbone_config")]
        values = [getattr(part, key, None) for part in (config, *parts)]
        values = [value[0] if _are_integers(value) and value else value for value in values]
        return next((value for value in values if isinstance(value, int)), usual)

    side, channels = size("image_size", 64), size("num_channels", 3)
    return {
        "input_ids": lambda: torch.randint(3, 60, (1, 16)),
        "pixel_values": lambda: torch.randn(1, channels, side, side),
        "input_values": lambda: torch.randn(1, 4000),
        "input_features": lambda: torch.randn(1, size("num_mel_bins", 80), 100),
        "pixel_values_videos": lambda: torch.randn(1, 4, 3, side, side),
        "past_values": lambda: torch.randn(1, size("context_length", 32), size("num_input_channels", 1)),
        "decoder_input_ids": lambda: torch.randint(3, 60, (1, 6)),
        "bbox": lambda: torch.randint(0, 50, (1, 16, 4)).sort(-1)[0],
    }


class _OneResult(nn.Module):
    """One tensor of a model's result, without a cache."""

    def __init__(self, module: nn.Module, names: Collection[str]):
        super().__init__()
        self.module, self.names = module, names
        takes_cache = "use_cache" in inspect.signature(module.forward).parameters
        self.options = {"return_dict": True, **({"use_cache": False} if takes_cache else {})}

    def forward(self, *inputs: Tensor) -> Tensor:
        """The logits, or the last hidden state, or the first tensor that there is."""
        found = self.module(**dict(zip(self.names, inputs, strict=True)), **self.options)
        named = [found[name] for name in RESULTS if name in found] if isinstance(found, dict) else []
        values = found.values() if isinstance(found, dict) else found if isinstance(found, list | tuple) else [found]
        return next(value for value in [*named, *values] if isinstance(value, Tensor) and value.is_floating_point())
