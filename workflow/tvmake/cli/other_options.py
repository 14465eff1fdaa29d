"""Options of other tools, and their equivalents here."""

from pathlib import Path

OTHER_OPTIONS = {
    **dict.fromkeys(("--fp16", "--int8", "--quantize"), "write --precision float16, int8 or int8_weights"),
    **dict.fromkeys(
        ("--shapes", "--input-shapes"),
        "write --input-shape INPUT=1,3,224,224, or --dim NAME=MIN..MAX for a dimension that stays dynamic",
    ),
    **dict.fromkeys(("--model", "--onnx"), "name the model without an option: `tvmake {command} model.onnx`"),
    "--saveEngine": "write -o PACKAGE.tar",
    "--target-host": 'the host is part of the target: -t \'{{"kind": "opencl", "host": {{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}}}}\'',
    "--json": "JSON output: `tvmake status --json`, `tvmake status results --json`",
}  # fmt: skip
"""Remedies for the commonest options of tvmc, trtexec and others; ``{command}`` is the typed command."""


def equivalent(option: str, command: str) -> str | None:
    """The remedy for another tool's option; None if it is unknown.

    Args:
        command: tvmake's command, as typed.
    """
    known = OTHER_OPTIONS.get(option)
    return known.format(command=command) if known else None


def is_model(word: str) -> bool:
    """Whether a word is a model file's name, by its suffix."""
    from tvmake.frontend.options import FORMATS

    return Path(word).suffix in FORMATS


def remedy_for_words(path: str, words: str) -> str | None:
    """The remedy for words that a command does not take; None if their meaning is unknown."""
    first = words.split()[0] if words.split() else ""
    if first.endswith((".yaml", ".yml")):
        return f"name a config with -c: `{path} -c {first}`"
    if path in ("tvmake compile", "tvmake tune") and not is_model(first):
        return f"name a target with -t and a package with -o; see `{path} -h`"
    return None
