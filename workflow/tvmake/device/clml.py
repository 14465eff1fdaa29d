"""Whether Qualcomm's CLML library or OpenCL kernels computed a package's CLML parts."""

from collections.abc import Callable
from typing import Any

SUMMARY = "tvmake.clml.summary"
"""The function in tvmake's OpenCL runtime that reports, in words, on the packages that ran in its process."""

CONDITION = "clml"


def conditions(function: Callable[[str], Any]) -> dict[str, str]:
    """The condition to record with a measurement; empty for packages without CLML parts.

    Args:
        function: gets a global function of the runtime by name; None or an exception if it does not exist.
    """
    try:
        report = function(SUMMARY)
        text = str(report()) if report is not None else ""
    except (RuntimeError, ValueError, AttributeError):
        return {}
    return {CONDITION: text} if text else {}
