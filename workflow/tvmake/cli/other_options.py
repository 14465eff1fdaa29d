"""What other programs call options, and what they are here."""

from pathlib import Path

_OF_PRECISION = "write --precision float16, int8 or int8_weights"
_OF_SHAPES = "write --input-shape INPUT=1,3,224,224, or --dim NAME=MIN..MAX for a dimension that stays dynamic"
_OF_MODEL = "the model is a word of its own: `tvmake {command} model.onnx`"
_OF_RECORDS = "records go to a store and are found there by themselves; `tvmake records` looks at it"
_OF_HOST = 'a host is a part of the target: -t \'{{"kind": "opencl", "host": {{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}}}}\''

OTHER_OPTIONS = {
    **dict.fromkeys(("--fp16", "--half", "--int8", "--int4", "--best", "--dtype", "--quantize", "--qformat"), _OF_PRECISION),
    **dict.fromkeys(("--shapes", "--input-shapes", "--minShapes", "--optShapes", "--maxShapes", "--shape"), _OF_SHAPES),
    **dict.fromkeys(("--onnx", "--model", "--model-path", "--model_path", "--input-model", "-m"), _OF_MODEL),
    **dict.fromkeys(("--model-format", "--model_format"), "the format is told by the file; in a config, models.NAME.format"),
    **dict.fromkeys(("--saveEngine", "--save-engine", "--output_path", "--save"), "write -o PACKAGE.tar"),
    **dict.fromkeys(("--output-format", "-f", "--runtime", "--executor"), "packages have one format; `tvmake run` runs them"),
    **dict.fromkeys(("--tuning-records", "--prior-records", "--records", "--timingCacheFile"), _OF_RECORDS),
    **dict.fromkeys(("--target-host", "--host"), _OF_HOST),
    **dict.fromkeys(("--tuner", "--enable-autoscheduler", "--early-stopping"), "these are keys of `tuning` in a config: --set tuning.KEY=VALUE"),
    **dict.fromkeys(("--rpc-tracker", "--rpc-key"), "write -D rpc:TRACKER:PORT/KEY"),
    **dict.fromkeys(("--desired-layout", "--desired_layout"), "write --layout NHWC"),
    **dict.fromkeys(("--iterations", "--avgRuns"), "write --repeat 100"),
    **dict.fromkeys(("--loadEngine", "--package"), "the package is a word of its own: `tvmake run PACKAGE`"),
    **dict.fromkeys(("--loadInputs",), "write -i FILE, for each input"),
    **dict.fromkeys(("--json",), "facts of what is made, as JSON: `tvmake status --json`"),
}  # fmt: skip
"""tvmc's, trtexec's, Olive's and others'; ``{command}`` is the command that was typed."""


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
