"""What other programs call options, and what they are here."""

from pathlib import Path

OTHER_OPTIONS = {
    **dict.fromkeys(("--fp16", "--int8", "--quantize"), "write --precision float16, int8 or int8_weights"),
    **dict.fromkeys(
        ("--shapes", "--input-shapes"),
        "write --input-shape INPUT=1,3,224,224, or --dim NAME=MIN..MAX for a dimension that stays dynamic",
    ),
    **dict.fromkeys(("--model", "--onnx"), "the model is a word of its own: `tvmake {command} model.onnx`"),
    "--saveEngine": "write -o PACKAGE.tar",
    "--target-host": 'a host is a part of the target: -t \'{{"kind": "opencl", "host": {{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}}}}\'',
    "--json": "JSON output: `tvmake status --json`, `tvmake status results --json`",
}  # fmt: skip
"""The commonest options of tvmc, trtexec and others, and what to write; ``{command}`` is the command that was typed."""


def elsewhere(option: str, command: str) -> str | None:
    """What to write in the place of another program's option; None for one that none has.

    Args:
        command: of tvmake, as it was typed.
    """
    known = OTHER_OPTIONS.get(option)
    return known.format(command=command) if known else None


def is_model(word: str) -> bool:
    """Whether a word is the name of a model's file, by its ending."""
    from tvmake.frontend.options import FORMATS

    return Path(word).suffix in FORMATS


def beside(path: str, words: str) -> str | None:
    """What words may be meant for that a command takes no more of; None where nobody can tell."""
    first = words.split()[0] if words.split() else ""
    if first.endswith((".yaml", ".yml")):
        return f"a config is named with -c: `{path} -c {first}`"
    if path in ("tvmake compile", "tvmake tune") and not is_model(first):
        return f"a target is named with -t, and a package with -o; see `{path} -h`"
    return None
