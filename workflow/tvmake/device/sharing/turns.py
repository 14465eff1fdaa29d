"""Two processes of this machine that measure alternately: a package's, and its baseline's.

While one measures, the other waits in a system call. They communicate over a Unix socket, one line per message. The package's
process sends ``threads N`` and waits for ``ready``; after each of its turns it sends ``turn``, or ``sequence`` after the steps of a
sequence, and waits for ``done``. After a lost connection or a timeout, the package is measured without its partner.
"""

import math
import socket
import sys
import time
from collections.abc import Callable

from tvmake.config.benchmark import Measurement

TURNS = 5
"""The minimum number of turns of a measurement: temporary load of the machine then affects both sides."""

SETTLE_S = 0.05
"""The pause at the beginning of a turn: worker threads of either side spin for some ms after their last run."""

SETTLING_RUNS_MS = 5.0
"""Runs before the samples of a turn: one, or up to ``warmup`` of them within this time."""

LOAD_LIMIT_S = 300.0
"""How long the baseline may take to be ready."""

SEQUENCES = 3
"""How often the steps of a sequence are timed."""

TURN_LIMIT_S = 10.0
"""The time limit of the baseline's turn, in addition to twice the duration of the package's turn."""


def turn_limit_s(how: Measurement) -> float:
    """The time after which the baseline takes no more samples in a turn, in seconds."""
    return TURN_LIMIT_S + 2 * how.min_duration_s / TURNS


def waiting_limit_s(how: Measurement) -> float:
    """How long a package waits for the end of a turn, in seconds: one run of the baseline may take much longer than the turn."""
    return 6 * turn_limit_s(how)


def total_limit_s(how: Measurement) -> float:
    """The maximum waiting time of a measurement, in seconds."""
    return LOAD_LIMIT_S + waiting_limit_s(how) + (TURNS + 1) * turn_limit_s(how)


class Sampler:
    """Takes the samples of a measurement, at once or interleaved.

    Args:
        timed: runs this many times, and returns the mean time of a run in ms.
        how: warm-up, number and repetition.
    """

    def __init__(self, timed: Callable[[int], float], how: Measurement, turns: int = 1):
        self._timed = timed
        self._how = how
        self._turns = turns
        self.number = how.number
        self.warmup_ms: list[float] = []
        """Runs before the first sample and, with turns, at the beginning of each turn."""
        self.samples_ms: list[float] = []
        """Means of ``number`` runs each."""

    @property
    def has_enough(self) -> bool:
        """Whether the requested number of samples was taken, over the requested time."""
        # Only measuring time counts, not the pauses between samples.
        measured_ms = sum(self.samples_ms) * self.number
        return len(self.samples_ms) >= self._how.repeat and measured_ms >= self._how.min_duration_s * 1000

    def take_turn(self, limit_s: float = math.inf) -> None:
        """Take the next part of the samples (with one turn, all): at least one, then none after ``limit_s`` seconds."""
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
        samples: list[float] = []
        while len(samples) < count or sum(samples) * self.number < lasting_ms:
            if samples and time.monotonic() > ends:
                break
            if self._how.cooldown_s and self.samples_ms:
                time.sleep(self._how.cooldown_s)
            samples.append(self._timed(self.number))
            self.samples_ms.append(samples[-1])

    def _settle(self) -> None:
        """Wait until the other side is quiet, and run until threads and caches are warm again."""
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
    """The baseline's process, as the package's process sees it.

    Args:
        how: the measurement, which determines how long a turn may take.
    """

    def __init__(self, address: str, how: Measurement):
        self._limit_s = waiting_limit_s(how)
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(address)
        except OSError as error:
            self._leave(error)

    def begin(self, threads: int) -> None:
        """Have it load the baseline with this many worker threads."""
        self._ask(f"threads {threads}", LOAD_LIMIT_S)

    def pass_on(self) -> None:
        """Pass the turn on, and wait until it is over."""
        self._ask("turn", self._limit_s)

    def time_sequence(self) -> None:
        """Have it time the steps of one sequence, and wait until it has."""
        self._ask("sequence", self._limit_s)

    def close(self) -> None:
        """Report that there are no more turns, so that it writes its result."""
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
                raise ConnectionResetError("it ended")
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        print(f"the baseline is no longer measured: {error}", file=sys.stderr)
        self.close()
