"""Ctrl-C, SIGTERM and SIGHUP end a command alike: in order, with one line and the exit code that shells know."""

import os
import signal
import subprocess
import sys

import pytest

from tests.patience import HANG_S
from tvmake.process.fork import run_forked
from tvmake.process.stopping import SIGNALS, is_stopped, stoppable

COMMAND = """
import os, signal, time
from tvmake.process.stopping import stoppable, report_stop
for number in {ignored}:
    signal.signal(number, signal.SIG_IGN)
try:
    with stoppable():
        try:
            for number in {sent}:
                os.kill(os.getpid(), number)
            print("continues")
        finally:
            for number in {after}:
                os.kill(os.getpid(), number)
            print("cleaned up")
except KeyboardInterrupt:
    raise SystemExit(report_stop(goes_on={goes_on}))
"""


def ended(*sent: int, after: tuple[int, ...] = (), ignored: tuple[int, ...] = (), goes_on: bool = False):
    code = COMMAND.format(
        sent=[*map(int, sent)], after=[*map(int, after)], ignored=[*map(int, ignored)], goes_on=goes_on
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("number", "line"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM"), (signal.SIGHUP, "ended by SIGHUP")],
)
def test_each_signal_is_a_line_a_code_and_a_clean_end(number: signal.Signals, line: str):
    assert ended(number) == (128 + number, "cleaned up\n", f"{line}\n")


def test_a_command_that_resumes_says_so():
    assert ended(signal.SIGINT, goes_on=True)[2] == (
        "interrupted; finished results are kept; run the same command to resume\n"
    )


def test_the_same_press_once_more_does_not_break_off_the_cleaning_up():
    again = (signal.SIGINT, signal.SIGHUP)
    assert ended(signal.SIGINT, after=again) == (130, "cleaned up\n", "interrupted\n")


def test_what_is_ignored_stays_so_as_with_nohup():
    assert ended(signal.SIGHUP, ignored=(signal.SIGHUP,)) == (0, "continues\ncleaned up\n", "")


def test_a_fork_that_others_end_ends_as_by_default():
    with stoppable():
        code, _ = run_forked(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert code == -signal.SIGTERM
    assert not is_stopped()


def test_handlers_are_as_before_behind_the_block():
    before = [signal.getsignal(number) for number in SIGNALS]
    with stoppable():
        assert all(signal.getsignal(number) not in before for number in SIGNALS)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_signal_that_something_else_handled_is_reported_too():
    code = "from tvmake.process.stopping import stop, report_stop\nstop(15)\nstop(2)\nraise SystemExit(report_stop(goes_on=False))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stderr) == (143, "ended by SIGTERM\n")


def test_a_postponed_signal_takes_effect_after_its_block():
    code = COMMAND.format(sent=[], after=[], ignored=[], goes_on=False).replace(
        'print("continues")',
        """
            from tvmake.process.stopping import postpone_stops
            with postpone_stops():
                os.kill(os.getpid(), signal.SIGTERM)
                print("to the end of the block")
            print("never")
""",
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "to the end of the block\ncleaned up\n")
