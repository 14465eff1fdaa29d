"""Directories of decoders that optimum exported to ONNX: which file to import, and how."""

from collections.abc import Mapping
from pathlib import Path

from tvmake.artifact.signature import Signature, TensorSpec, is_arithmetic
from tvmake.config.documents.starter import StarterDecoder
from tvmake.errors import InputError
from tvmake.frontend.checkpoint import DecoderConfig
from tvmake.frontend.checkpoint_files import CONFIG, is_checkpoint

FILES = ("decoder_model_merged.onnx", "decoder_with_past_model.onnx", "model.onnx")
"""Names of decoders that take earlier positions, the best first: one file for prompt and tokens, single tokens, unknown."""

WITHOUT_PAST = "decoder_model.onnx"

TOKENS = "input_ids"
MASKS = "mask"
BRANCH = "use_cache_branch"
"""The input of a merged decoder that selects the network with earlier positions, which may be none."""


def decoder_file(directory: Path) -> Path | None:
    """The file to import of a directory with a config.json and ONNX files; None for any other path.

    Raises:
        InputError: it has only files that no package can be made of.
    """
    if not (directory / CONFIG).is_file() or is_checkpoint(str(directory)):
        return None
    for folder in (directory, directory / "onnx"):
        for name in FILES:
            if (folder / name).is_file():
                return folder / name
        if (folder / WITHOUT_PAST).is_file():
            problem = f"has {WITHOUT_PAST} alone, which takes no earlier positions"
            raise InputError(str(directory), problem, _export(directory))
    return None


def exported_decoder(
    source: str, declared: Signature, state: Mapping[str, str], config: DecoderConfig
) -> StarterDecoder:
    """The keys that a decoder needs in a config.

    Args:
        declared: its inputs and outputs.
        state: inputs that are the keys and values of earlier positions.

    Raises:
        InputError: it has none, or no input of tokens.
    """
    tokens = next((spec for spec in declared.inputs if spec.name == TOKENS), None)
    past = next((spec for spec in declared.inputs if spec.name.startswith(("past", "cache"))), None)
    if tokens is None or past is None or not state:
        lacking = f"input '{TOKENS}'" if tokens is None else "inputs for the keys and values of earlier positions"
        raise InputError(source, f"has no {lacking}", _export(Path(source).parent))
    inputs = {tokens.name: f"{{range: [0, {config.vocabulary - 1}]}}"}
    for spec in declared.inputs:
        if MASKS in spec.name:
            inputs[spec.name] = "{value: 1}  # all positions count"
        elif spec.name == BRANCH:
            inputs[spec.name] = "{value: true}  # the network with earlier positions, which may be none"
    batch, sequence = (extent if isinstance(extent, str) else None for extent in tokens.shape[:2])
    return StarterDecoder(sequence, _past(past, batch), config.context, batch, inputs)


def _past(spec: TensorSpec, batch: str | None) -> str:
    names = [
        extent for extent in spec.shape if isinstance(extent, str) and extent != batch and not is_arithmetic(extent)
    ]
    return names[0] if names else "past_sequence_length"


def _export(directory: Path) -> str:
    return (
        f"export it with its cache: optimum-cli export onnx --task text-generation-with-past --model MODEL {directory}"
    )
