"""Suggest known target names for an unknown one."""

import difflib
import re
from collections.abc import Collection


def suggestion(text: str, known: Collection[str], otherwise: str = "`tvmake targets` lists all targets") -> str:
    """``; did you mean …?`` with the nearest known name, or advice where to look."""
    words = _words(text)
    close = [name for name in sorted(known, key=len) if words and words <= _words(name)]
    if len(close) > 1:
        return f"; there are {', '.join(close[:5])}{' and others' if len(close) > 5 else ''}"
    close = close or difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else f"; {otherwise}"


def _words(name: str) -> set[str]:
    return set(filter(None, re.split(r"[\W_]+", name.lower())))
