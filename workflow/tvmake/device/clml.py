"""Whether Qualcomm's CLML library computed its parts of a package, or kernels did."""

from collections.abc import Callable
from typing import Any

SUMMARY = "tvmake.clml.summary"
"""What tvmake's OpenCL runtime reports of the packages that ran in its process, in words."""

CONDITION = "clml"


def conditions(function: Callable[[str], Any]) -> dict[str, str]:
    """What to note with a measurement; nothing where no package has parts for CLML.

    Args:
        function: gives a global function of the runtime by name, or None; may raise where there is none.
    """
    try:
        report = function(SUMMARY)
        text = str(report()) if report is not None else ""
    except (RuntimeError, ValueError, AttributeError):
        return {}
    return {CONDITION: text} if text else {}
