"""The progress bar is visible with any texts, in a narrow terminal and without colours."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from rich.cells import cell_len

from tests.patience import HANG_S
from tvmake.engine.progress.bar import progress_bar
from tvmake.report.console import SafeConsole

LONG = "  fused_conv2d_add_relu_multiply  best 0.8123 ms, 141 GFLOPS, now 0.9512 ms, 120 GFLOPS, 3 failed, 812 s left"


@pytest.fixture(params=[{}, {"NO_COLOR": "1"}], ids=["coloured", "without colours"])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """The output of a run with a search in a terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)
    console = SafeConsole(file=io.StringIO(), force_terminal=True, width=80, highlight=False)
    bar = progress_bar(console)
    bar.add_task("build digits float32 cpu", total=40, completed=10)
    bar.add_task(LONG, total=2000, completed=1000)
    bar.add_task("  tune fused_conv2d for cpu", total=None)
    with console.capture() as captured:
        console.print(bar)
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.get()).splitlines()


def test_every_line_fits_and_has_its_bar_and_its_count(shown: list[str]):
    assert all(cell_len(line) <= 80 for line in shown), shown
    run, search, waiting = shown
    assert run.startswith("build digits float32 cpu ")
    assert "10/40" in run
    assert "1000/2000" in search
    assert search.startswith("  fused_conv2d_add_relu")
    assert "…" in search
    assert waiting.startswith("  tune fused_conv2d for cpu")


def test_finished_and_open_parts_differ_without_colours_too(shown: list[str]):
    run, search, _ = shown
    assert (run.count("━"), run.count("─")) == (5, 15)
    assert (search.count("━"), search.count("─")) == (10, 10)


SCRIPT = """
import sys
from tvmake.engine.progress.bar import progress_bar
from tvmake.process.output import escape_output
from tvmake.report.console import SafeConsole

with escape_output():
    console = SafeConsole(stderr=True)
    bar = progress_bar(console)
    with bar:
        bar.add_task("build digits", total=2, completed=1)
        console.print("[green]done[/green]")
        print("a name with \\x1b[2J in it", file=sys.stderr)
"""


def test_a_terminal_obeys_the_bar_and_nothing_that_is_printed_beside_it():
    master, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    subprocess.run([sys.executable, "-c", SCRIPT], stderr=terminal, env=environment, check=True, timeout=HANG_S)
    os.close(terminal)
    shown = b""
    while chunk := _read(master):
        shown += chunk
    os.close(master)
    text = shown.decode()
    assert "\x1b[?25l" in text, "the bar hides the cursor"
    assert "\x1b[32mdone" in text
    assert re.search("a name with .*in it", text)
    assert "\x1b[2J" not in text
    assert "\\x1b" not in text
    assert "\\r" not in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # on Linux: the other end is closed
        return b""
