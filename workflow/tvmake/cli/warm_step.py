"""Which warm process a step is forked from."""

import json
import os
from typing import Any

from tvmake.warm.client import DIRECTORY, hand_over

WITHOUT_TORCH = ("onnx", "tflite")


def run_warm(arguments: list[str]) -> int | None:
    """Have a warm process run ``tvmake step …``.

    Returns:
        The exit code; None when there is none and the step has to run here.
    """
    if DIRECTORY not in os.environ:
        return None
    return hand_over(_kind(arguments), "step", arguments)


def _kind(arguments: list[str]) -> str:
    # With records from a lock nothing is searched or measured.
    is_frozen = any(word.startswith("--frozen") for word in arguments)
    if arguments[1:2] in (["tune"], ["pick_best"], ["choose_layout"]) and not is_frozen:
        return "tuner"
    return "torch" if _wants_torch(arguments) else "compiler"


def _wants_torch(arguments: list[str]) -> bool:
    if arguments[1:2] not in (["import"], ["reference"]) or "--options" not in arguments[:-1]:
        return False
    try:
        options: dict[str, Any] = json.loads(arguments[arguments.index("--options") + 1])
        model = options.get("model", options)
        form = model.get("format") or model["source"].rpartition(".")[2]
    except (AttributeError, KeyError, TypeError, ValueError):
        return False  # the step itself says what is wrong
    return form.lower() not in WITHOUT_TORCH
