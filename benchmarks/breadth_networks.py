"""Networks of public libraries, built without downloads: the factory of the projects in benchmarks/breadth.py.

Names are ``timm:NAME``, ``torchvision:NAME``, ``transformers:NAME``, ``keras:NAME``, ``pytorchcv:NAME``, ``smp:NAME`` (of
segmentation_models_pytorch) and ``ultralytics:NAME`` (of a config file there); ``transformers-auto:NAME`` is any model type of
transformers, its default config made small (``breadth_small_configs``). As a program it writes a network as an ONNX file:
``python breadth_networks.py NAME FILE legacy`` (or ``dynamo``). Weights are drawn; statistics of batch
norms are those of a few batches, so that outputs depend on inputs.
"""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

BATCHES, BATCH = 3, 2

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {**SMALL, "vocab_size": 100, "max_position_embeddings": 64}
DECODER = {**TEXT, "pad_token_id": 0}
GROUPED = {**DECODER, "num_key_value_heads": 2, "head_dim": 8}
VISION = {**SMALL, "image_size": 64, "patch_size": 8}
STAGES = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]}
SPEECH = {
    **SMALL,
    "conv_dim": [16] * 7,
    "vocab_size": 30,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "albert": ("Albert", "Model", {**TEXT, "embedding_size": 16}),
    "bert": ("Bert", "Model", TEXT),
    "deberta-v2": ("DebertaV2", "Model", TEXT),
    "distilbert": (
        "DistilBert", "Model",
        {"vocab_size": 100, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64},
    ),
    "electra": ("Electra", "Model", {**TEXT, "embedding_size": 16}),
    "modernbert": ("ModernBert", "Model", {**TEXT, **SPECIAL, "cls_token_id": 1, "sep_token_id": 2}),
    "mpnet": ("MPNet", "Model", TEXT),
    "roberta": ("Roberta", "Model", {**TEXT, "pad_token_id": 1}),
    "t5-encoder": ("T5", "EncoderModel", {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}),
    "bloom": ("Bloom", "ForCausalLM", {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "gemma": ("Gemma", "ForCausalLM", GROUPED),
    "gpt-neox": ("GPTNeoX", "ForCausalLM", DECODER),
    "gpt2": ("GPT2", "LMHeadModel", {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "llama": ("Llama", "ForCausalLM", GROUPED),
    "mamba": ("Mamba", "ForCausalLM", {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "opt": (
        "OPT", "ForCausalLM",
        {
            "vocab_size": 100, "hidden_size": 32, "word_embed_proj_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "ffn_dim": 64, "max_position_embeddings": 64,
        },
    ),
    "phi": ("Phi", "ForCausalLM", DECODER),
    "qwen2": ("Qwen2", "ForCausalLM", {name: value for name, value in GROUPED.items() if name != "head_dim"}),
    "beit": ("Beit", "Model", VISION),
    "clip-vision": ("CLIPVision", "Model", VISION),
    "convnext": ("ConvNext", "Model", STAGES),
    "deit": ("DeiT", "Model", VISION),
    "dinov2": ("Dinov2", "Model", VISION),
    "mobilevit": ("MobileViT", "Model", {"image_size": 64, "hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8, 8, 8, 16, 16, 16, 16]}),
    "resnet": ("ResNet", "Model", {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}),
    "segformer": ("Segformer", "Model", {**STAGES, "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16}),
    "swin": (
        "Swin", "Model",
        {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4},
    ),
    "vit": ("ViT", "Model", VISION),
    "yolos": ("Yolos", "ForObjectDetection", {**SMALL, "image_size": [64, 64], "patch_size": 8, "num_detection_tokens": 5}),
    "hubert": ("Hubert", "Model", SPEECH),
    "wav2vec2": ("Wav2Vec2", "Model", SPEECH),
    "whisper-encoder": (
        "Whisper", "Model",
        {
            **SPECIAL, "vocab_size": 100, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50,
            "decoder_start_token_id": 1,
        },
    ),
}  # fmt: skip
"""Small configs by name: the prefix of the config's class, the suffix of the model's, and what the config is given."""

EXAMPLES: dict[str, Callable[[], Tensor]] = {
    "input_ids": lambda: torch.randint(0, 99, (1, 16)),
    "pixel_values": lambda: torch.randn(1, 3, 64, 64),
    "input_values": lambda: torch.randn(1, 8000),
    "input_features": lambda: torch.randn(1, 80, 100),
}
"""Inputs of transformers' models, by the argument's name."""


def network(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A network and example inputs."""
    library, _, own = name.partition(":")
    torch.manual_seed(0)
    module, inputs = MAKERS[library](own)
    return settle_norms(module, inputs), inputs


def _timm(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    _allow_torchvision()
    import timm

    module = timm.create_model(name, pretrained=False)
    return module, (torch.randn(1, *module.default_cfg["input_size"]),)


def _torchvision(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    _allow_torchvision()
    import torchvision

    module = torchvision.models.get_model(
        name, weights=None, **({"init_weights": False} if name in _DRAWS_SLOWLY else {})
    )
    side = 299 if name == "inception_v3" else 224
    return module, (torch.randn(1, 3, side, side),)


_DRAWS_SLOWLY = ("inception_v3", "googlenet")
"""Their initialisation draws from scipy's distributions, for minutes."""


def _transformers(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    _allow_torchvision()
    import transformers

    prefix, suffix, options = TRANSFORMERS[name]
    module = getattr(transformers, prefix + suffix)(
        getattr(transformers, f"{prefix.removesuffix('EncoderModel')}Config")(**options)
    )
    module = module.encoder if name == "whisper-encoder" else module
    argument = next(name for name in EXAMPLES if name in inspect.signature(module.forward).parameters)
    return _FirstOutput(module, argument), (EXAMPLES[argument](),)


def _transformers_auto(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    _allow_torchvision()
    import breadth_small_configs

    return breadth_small_configs.network(name)


class _FirstOutput(nn.Module):
    """One tensor of a model's output, without a cache."""

    def __init__(self, module: nn.Module, argument: str):
        super().__init__()
        self.module, self.argument = module, argument
        takes_cache = "use_cache" in inspect.signature(module.forward).parameters
        self.options = {"return_dict": True, **({"use_cache": False} if takes_cache else {})}

    def forward(self, x: Tensor) -> Tensor:
        """The logits, or the last hidden state."""
        found = self.module(**{self.argument: x}, **self.options)
        return found["logits"] if "logits" in found else found[0]


def _keras(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)  # Keras draws weights by a generator of its own

    module = getattr(keras.applications, name)(weights=None)
    return module, (torch.randn(1, *(extent or 224 for extent in module.input_shape[1:])),)


def _pytorchcv(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    from pytorchcv.model_provider import get_model

    module = get_model(name, pretrained=False)
    extents = (min(extent, 256) for extent in getattr(module, "in_size", (224, 224)))
    return module, (torch.randn(1, getattr(module, "in_channels", 3), *extents),)


def _segmentation(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    _allow_torchvision()
    import segmentation_models_pytorch

    module = getattr(segmentation_models_pytorch, name)("resnet18", encoder_weights=None)
    return module, (torch.randn(1, 3, 128, 128),)


def _ultralytics(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    _allow_torchvision()
    from ultralytics.nn import tasks

    kinds = {"seg": "Segmentation", "pose": "Pose", "obb": "OBB", "cls": "Classification", "world": "World"}
    kind = "RTDETRDetection" if name.startswith("rtdetr") else kinds.get(name.rpartition("-")[2], "Detection")
    module = getattr(tasks, f"{kind}Model")(f"{name}.yaml", verbose=False).eval()
    for part in module.modules():
        if hasattr(part, "export"):
            part.export, part.format = True, "onnx"  # as the library's own exporters set it
    image = torch.rand(1, 3, 160, 160)
    with torch.no_grad():
        module(image)  # draws the anchors
    return module, (image,)


MAKERS: dict[str, Callable[[str], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "transformers": _transformers,
    "transformers-auto": _transformers_auto,
    "keras": _keras,
    "pytorchcv": _pytorchcv,
    "smp": _segmentation,
    "ultralytics": _ultralytics,
}


def settle_norms(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    """A network whose batch norms have seen a few batches."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if norms and all(value.is_floating_point() for value in inputs):
        module.eval()
        for norm in norms:
            norm.train()
        with torch.no_grad():
            for _ in range(BATCHES):
                module(*(torch.randn(BATCH, *value.shape[1:]) for value in inputs))
    return module.eval()


def _allow_torchvision() -> None:
    """Let torchvision be imported beside a torch for CPUs: its compiled operators, made for CUDA, are not loaded then."""
    register = torch.library.register_fake

    def register_known(*args: Any, **kwargs: Any) -> Any:
        decorate = register(*args, **kwargs)

        def decorate_known(function: Any) -> Any:
            try:
                return decorate(function)
            except RuntimeError:
                return function

        return decorate_known

    torch.library.register_fake = register_known


def export(name: str, file: str, exporter: str) -> None:
    """Write a network as an ONNX file of any batch; twice the example is what it is traced with, because 1 is taken for a constant."""
    module, inputs = network(name)
    batch = tuple(torch.cat([value, value]) for value in inputs)
    names = [f"input_{number}" for number in range(len(batch))]
    if exporter == "dynamo":
        shapes = tuple({0: torch.export.Dim("batch")} for _ in batch)
        torch.onnx.export(module, batch, file, input_names=names, dynamo=True, dynamic_shapes=shapes, verbose=False)
    else:
        axes = {name: {0: "batch"} for name in names}
        torch.onnx.export(module, batch, file, input_names=names, dynamo=False, dynamic_axes=axes, opset_version=17)


if __name__ == "__main__":
    export(*sys.argv[1:])
