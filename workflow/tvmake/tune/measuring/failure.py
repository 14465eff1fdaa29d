"""Errors of TVM, LLVM, linkers and RPC as one telling line."""

import re

LONGEST = 300
"""Characters of a line to keep; LLVM quotes whole expressions."""

NOISE = re.compile(
    r"^(File |at |Command line:|Traceback|Stack trace|(RPCError: )?Error caught from RPC call:|The above exception|During handling|\^+$|~*\^+~*$)"
)
"""Beginnings of lines that say where, not what."""

FRAME = re.compile(r"^\d+: ")
"""A frame of TVM's stack traces."""


def telling_line(text: str) -> str:
    """What an error's text says, without frames and commands; empty when it says nothing.

    Short messages are kept whole, because TVM breaks one sentence over lines; of long ones it is the last line that
    tells.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not NOISE.match(line) and not FRAME.match(line)]
    said = " ".join(lines) if len(lines) <= 3 else lines[-1] if lines else ""
    return said if len(said) <= LONGEST else said[: LONGEST - 2] + " …"


def explain(error: BaseException) -> str:
    """One line for an exception."""
    return telling_line(str(error)) or type(error).__name__
