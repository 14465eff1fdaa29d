"""Summarise errors of TVM, LLVM, linkers and RPC in one line."""

import re

LONGEST = 300
"""Maximum length of a line; LLVM quotes whole expressions."""

SHORT = 4
"""Maximum lines of a message that is kept whole: TVM breaks one sentence over several lines."""

NOISE = re.compile(
    r"^(File |at |Command line:|Traceback|Stack trace|(RPCError: )?Error caught from RPC call:|!+ Segfault encountered"
    r"|The above exception|During handling|[\^~]+$)"
)
"""Beginnings of lines that contain only a source location, or nothing."""

FRAME = re.compile(r"^\d+: ")
"""A frame of TVM's stack traces."""


def explain(error: BaseException) -> str:
    """One line for an exception: the beginning of its message, because TVM appends code and consequences."""
    text = str(error)
    if "Traceback" in text:
        return telling_line(text) or type(error).__name__
    lines = _telling(text)
    if len(lines) > SHORT:
        lines = lines[: 2 if lines[0].endswith(":") else 1]
    return _cut(" ".join(lines)) or type(error).__name__


def telling_line(output: str) -> str:
    """The last message in the output of a process, without frames and commands; empty if there is none."""
    lines = _telling(output)
    return _cut(" ".join(lines if len(lines) <= SHORT else lines[-1:]))


def _telling(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not NOISE.match(line) and not FRAME.match(line)]


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else line[: LONGEST - 2] + " …"
