"""Load a directory of transformers as a language model, and export it with its memory as inputs and outputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers  # type: ignore[import-not-found,unused-ignore]
from torch.export import Dim, ExportedProgram

from tvmake.errors import InputError
from tvmake.frontend.checkpoint import PAST, SEQUENCE, TOKENS, check_weights, read_config
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.decoders.module import POSITION, named_module, past_shapes
from tvmake.frontend.torch.exporting.export import exported_program

EXAMPLE_TOKENS, EXAMPLE_PAST = 5, 7
"""Sizes to trace with; neither 0 nor 1, for which PyTorch generates other code."""

DIRECTORY = "give a directory that transformers' save_pretrained wrote"


def export(source: str, options: ImportOptions) -> ExportedProgram:
    """Load a language model in float32, and export it.

    It takes ``input_ids`` [1, sequence] and, for each layer, the keys and values [1, heads, past, channels] of all earlier
    positions; it returns the ``logits`` [1, vocabulary] of the last position, and the keys and values of all.

    Raises:
        InputError: a file is missing or damaged, the architecture is unknown or not a language model's, its weights do not fit, or
            its memory is of another kind.
    """
    config = read_config(Path(source))
    check_weights(Path(source))
    most = config.context and config.context - 1
    with _silence_transformers():
        model = _load(source)
        shapes = past_shapes(source, model)
        module = named_module(model, len(shapes))
        examples = [torch.zeros((1, EXAMPLE_TOKENS), dtype=torch.int64)]
        dimensions = {TOKENS: {1: Dim(SEQUENCE, min=1)}}
        past = Dim(PAST, min=0, max=most) if most else Dim(PAST, min=0)
        for layer, pair in enumerate(shapes):
            for kind, shape in zip(("key", "value"), pair, strict=True):
                examples.append(
                    torch.zeros((*shape[:POSITION], min(EXAMPLE_PAST, most or EXAMPLE_PAST), *shape[POSITION + 1 :]))
                )
                dimensions[f"past_{kind}_{layer}"] = {POSITION: past}
        return exported_program(source, module, examples, dimensions)


def _load(source: str) -> "transformers.PreTrainedModel":
    """The model in float32.

    Raises:
        InputError: the architecture is unknown or not a language model's, or its weights do not fit.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise InputError(
            source, f"transformers {transformers.__version__} does not know it: {_line(error)}", DIRECTORY
        ) from error
    if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        problem = f"'{config.model_type}' is not an architecture of language models (AutoModelForCausalLM)"
        raise InputError(source, problem, "export it to ONNX or with torch.export")
    try:
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            source,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # they are reported below, by name
            output_loading_info=True,
        )
    except (ValueError, OSError, RuntimeError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise InputError(
            source, f"transformers cannot load it: {type(error).__name__}: {_line(error)}", DIRECTORY
        ) from error
    for key, problem in (
        ("missing_keys", "its files lack the weights"),
        ("mismatched_keys", "its files have other shapes of the weights"),
    ):
        names = sorted(str(entry[0] if isinstance(entry, tuple) else entry) for entry in loading.get(key) or ())
        if names:
            listing = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
            raise InputError(
                source,
                f"{problem} {listing} of {type(model).__name__}",
                "give the files that belong to its config.json",
            )
    return model.eval()


def _line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]


@contextmanager
def _silence_transformers() -> Iterator[None]:
    """Disable progress bars and messages of transformers during the block."""
    messages = transformers.utils.logging
    level, has_bars = messages.get_verbosity(), messages.is_progress_bar_enabled()
    messages.set_verbosity(messages.CRITICAL)
    messages.disable_progress_bar()
    try:
        yield
    finally:
        messages.set_verbosity(level)
        if has_bars:
            messages.enable_progress_bar()
