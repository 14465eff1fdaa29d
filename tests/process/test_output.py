"""Text that a process prints shows what a terminal would obey, and does not make it obey."""

import os
import pty
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from tvmake.process.output import argument, printable
from tvmake.process.python import python_command
from tvmake.report.console import SafeConsole, print_lines

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\u202eevil\u2066\x7f"

PROGRAM = """
import sys
from tvmake.errors import InputError, print_error
from tvmake.process.output import escape_output
from tvmake.report.console import SafeConsole, print_lines
from rich.text import Text
text = {text!r}
with escape_output(), escape_output():
    print(text)
    print("one\\ttwo")
    print_error(InputError(text, text, text))
    console = SafeConsole(force_terminal=True, color_system="standard", width=200)
    console.print(Text(text, style="red"))
    console.print("plain", text, markup=False, highlight=False)
    print_lines(console, ("name", "state"), [((text, ""), (text, "red"))])
"""


def obeyed(text: str) -> set[str]:
    return {letter for letter in text if letter not in "\n\t" and printable(letter) != letter}


def said(command: list[str], on_terminal: bool) -> str:
    """What a program prints, to a pipe or to a terminal."""
    if not on_terminal:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    reading, writing = pty.openpty()
    process = subprocess.Popen(command, stdout=writing, stderr=writing, stdin=subprocess.DEVNULL)
    os.close(writing)
    data = b""
    while part := _read(reading):
        data += part
    os.close(reading)
    assert process.wait() == 0
    return data.decode().replace("\r\n", "\n")


def _read(file: int) -> bytes:
    try:
        return os.read(file, 65536)
    except OSError:  # how Linux tells the end of a terminal
        return b""


@pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])
def test_no_text_reaches_a_terminal_as_a_command(on_terminal: bool):
    text = said(python_command("-c", PROGRAM.format(text=HOSTILE)), on_terminal)
    # What is left is rich's own: one colour, bold, and their ends.
    assert obeyed(text.replace("\x1b[31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "")) == set()
    assert (text.count("\x1b[31m"), text.count("\x1b[1m"), text.count("\x1b[0m")) == (2, 2, 4)
    assert "\\x1b[2J" in text and "\\u202eevil" in text and "one\ttwo" in text


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_a_line_of_any_text_is_one_line_that_nothing_obeys(text: str):
    shown = printable(text)
    assert "\n" not in shown and obeyed(shown) == set()
    assert shown.encode() is not None


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp"))))
def test_usual_text_is_unchanged(text: str):
    assert printable(text) == text


def test_a_stream_that_cannot_show_a_character_names_it():
    imports = "from tvmake.process.output import escape_output\nfrom tvmake.report.console import SafeConsole"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for shown in ("print", "SafeConsole().print"):
        program = f"{imports}\nwith escape_output(): {shown}('\u2192 \x1b')"
        assert subprocess.check_output(python_command("-c", program), env=environment) == b"\\u2192 \\x1b\n"


def test_the_columns_of_lines_begin_at_the_same_position_and_have_no_spaces_at_the_end(
    capsys: pytest.CaptureFixture[str],
):
    rows = [[("a/float32/cpu", ""), ("made", "green"), ("", "")], [("図", ""), ("outdated", "yellow"), ("build", "")]]
    print_lines(SafeConsole(), ("variant", "state", "stages"), rows)
    assert capsys.readouterr().out.splitlines() == [
        "variant        state     stages",
        "a/float32/cpu  made",
        "図             outdated  build",
    ]


def test_styles_of_lines_are_those_of_a_console(capsys: pytest.CaptureFixture[str]):
    console = SafeConsole(force_terminal=True, color_system="standard", no_color=False, width=200)
    print_lines(console, ("state",), [[("made", "green")], [("made", "green")]])
    shown = capsys.readouterr().out
    console.print(Text("made", "green"))
    assert shown.splitlines()[1:] == capsys.readouterr().out.splitlines() * 2


def test_a_name_between_colons_is_not_an_emoji(capsys: pytest.CaptureFixture[str]):
    SafeConsole().print("fac:ok: factory:M:")
    assert capsys.readouterr().out == "fac:ok: factory:M:\n"


@pytest.mark.parametrize(
    ("path", "typed"), [("a.tar", "a.tar"), ("my a.tar", "'my a.tar'"), ("-1", "./-1"), ("$x", "'$x'")]
)
def test_a_path_in_a_command_is_typed_as_a_shell_takes_it(path: str, typed: str):
    assert argument(path) == typed
