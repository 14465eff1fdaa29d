"""Two processes of this machine that measure by turns: a package's, and its baseline's.

While one measures, the other waits in a system call. They talk over a Unix socket, a line at a time: the package's process
says ``threads N`` and waits for ``ready``, then after each of its turns says ``turn`` and waits for ``done``. A partner that is
gone, or that takes too long, is gone for good: the package is then measured alone.
"""

import math
import socket
import sys
import time
from collections.abc import Callable

from tvmake.config.benchmark import Measurement

TURNS = 5
"""A measurement's parts, at least: what slows the machine down for a while slows both sides down."""

SETTLE_S = 0.05
"""Pause at the beginning of a turn: worker threads of either side spin for some ms after their last run."""

SETTLING_RUNS_MS = 5.0
"""Runs before the samples of a turn: one, or up to ``warmup`` of them for so long."""

LOAD_LIMIT_S = 300.0
"""How long the baseline may take to be ready."""

TURN_LIMIT_S = 10.0
"""When the baseline ends its turn, besides twice the time that the package's turn has to last."""


def turn_limit_s(how: Measurement) -> float:
    """After which time the baseline takes no more samples in a turn, in seconds."""
    return TURN_LIMIT_S + 2 * how.min_duration_s / TURNS


def waiting_limit_s(how: Measurement) -> float:
    """How long a package waits for the end of a turn, in seconds: one run of the baseline may outlast it by far."""
    return 6 * turn_limit_s(how)


def total_limit_s(how: Measurement) -> float:
    """What waiting may add to the time of a measurement, in seconds."""
    return LOAD_LIMIT_S + waiting_limit_s(how) + (TURNS + 1) * turn_limit_s(how)


class Sampler:
    """Takes the samples of a measurement: all at once, or in turns.

    Args:
        timed: runs this many times; how long one run took, in ms, on average.
        how: warm-up, number and repetition.
        turns: in how many turns.
    """

    def __init__(self, timed: Callable[[int], float], how: Measurement, turns: int = 1):
        self._timed = timed
        self._how = how
        self._turns = turns
        self.number = how.number
        self.warmup_ms: list[float] = []
        """Runs before the first sample and, with turns, some at the beginning of each."""
        self.samples_ms: list[float] = []
        """Each the mean of ``number`` runs."""

    @property
    def has_enough(self) -> bool:
        """Whether there are as many samples, over as much time, as the measurement asks for."""
        # Only time spent measuring counts, not the pauses between samples.
        measured_ms = sum(self.samples_ms) * self.number
        return len(self.samples_ms) >= self._how.repeat and measured_ms >= self._how.min_duration_s * 1000

    def take_turn(self, limit_s: float = math.inf) -> None:
        """Take the next portion of samples; with one turn, all of them. At least one, then none after ``limit_s`` seconds."""
        ends = time.monotonic() + limit_s
        if not self.samples_ms:
            self.warmup_ms += [self._timed(1) for _ in range(self._how.warmup)]
            if self._how.min_repeat_ms:
                self.number = max(self.number, self._runs_lasting(self._how.min_repeat_ms))
        if self._turns > 1:
            self._settle()
        missing = self._how.repeat - len(self.samples_ms)
        count = min(math.ceil(self._how.repeat / self._turns), max(1, missing))
        lasting_ms = self._how.min_duration_s * 1000 / self._turns
        taken: list[float] = []
        while len(taken) < count or sum(taken) * self.number < lasting_ms:
            if taken and time.monotonic() > ends:
                break
            if self._how.cooldown_s and self.samples_ms:
                time.sleep(self._how.cooldown_s)
            taken.append(self._timed(self.number))
            self.samples_ms.append(taken[-1])

    def _settle(self) -> None:
        """Wait until the other side is quiet, and run until threads and caches are one's own again."""
        time.sleep(SETTLE_S)
        runs_ms = [self._timed(1)]
        while sum(runs_ms) < SETTLING_RUNS_MS and len(runs_ms) < self._how.warmup:
            runs_ms.append(self._timed(1))
        self.warmup_ms += runs_ms

    def _runs_lasting(self, min_ms: float) -> int:
        """As in TVM's time_evaluator: raise the count until one sample lasts long enough."""
        number = 1
        while (lasted := self._timed(number) * number) < min_ms:
            number = max(number + 1, int(number * min(10.0, 1.2 * min_ms / max(lasted, 1e-6))))
        return number


class Partner:
    """The baseline's process, as the package's sees it.

    Args:
        address: of the socket that it listens on.
        how: the measurement, which says how long a turn may take.
    """

    def __init__(self, address: str, how: Measurement):
        self._limit_s = waiting_limit_s(how)
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(address)
        except OSError as error:
            self._leave(error)

    def begin(self, threads: int) -> None:
        """Have it load, for this many worker threads."""
        self._ask(f"threads {threads}", LOAD_LIMIT_S)

    def pass_on(self) -> None:
        """Give it the turn, and wait until it is over."""
        self._ask("turn", self._limit_s)

    def close(self) -> None:
        """Say that there are no more turns: it writes down what it found."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, line: str, limit_s: float) -> None:
        if self._socket is None:
            return
        try:
            self._socket.settimeout(limit_s)
            self._socket.sendall(f"{line}\n".encode())
            if not self._socket.recv(64).endswith(b"\n"):
                raise ConnectionResetError("it has ended")
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        print(f"the baseline is not measured any further: {error}", file=sys.stderr)
        self.close()
