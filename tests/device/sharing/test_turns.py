"""Two processes that measure alternately."""

import socket
import threading

import pytest

from tvmake.config.benchmark import Measurement
from tvmake.device.sharing import turns
from tvmake.device.sharing.turns import TURNS, Partner, Sampler


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "SETTLE_S", 0)


class Clock:
    """Runs that take one millisecond each, by their own account."""

    def __init__(self, run_ms: float = 1.0):
        self.run_ms = run_ms
        self.runs: list[int] = []

    def timed(self, number: int) -> float:
        self.runs.append(number)
        return self.run_ms


def turns_of(sampler: Sampler) -> list[int]:
    """How many samples each turn takes."""
    counts = []
    while not sampler.has_enough:
        before = len(sampler.samples_ms)
        sampler.take_turn()
        counts.append(len(sampler.samples_ms) - before)
    return counts


def test_without_turns_all_samples_are_taken_at_once_after_the_warm_up():
    clock = Clock()
    sampler = Sampler(clock.timed, Measurement(warmup=3, number=2, repeat=20))
    assert turns_of(sampler) == [20]
    assert sampler.warmup_ms == [1.0] * 3
    assert clock.runs == [1] * 3 + [2] * 20


@pytest.mark.parametrize(("repeat", "counts"), [(20, [4] * 5), (7, [2, 2, 2, 1]), (3, [1, 1, 1]), (1, [1])])
def test_turns_share_the_samples_and_take_no_more_than_without(repeat: int, counts: list[int]):
    assert turns_of(Sampler(Clock().timed, Measurement(repeat=repeat), TURNS)) == counts


def test_turns_share_the_time_that_is_to_be_measured():
    measurement = Measurement(repeat=5, min_duration_s=0.1)
    assert turns_of(Sampler(Clock().timed, measurement, TURNS)) == [20] * 5


def test_each_turn_begins_with_runs_that_do_not_count():
    sampler = Sampler(Clock().timed, Measurement(warmup=2, repeat=20), TURNS)
    assert len(turns_of(sampler)) == TURNS
    assert len(sampler.warmup_ms) == 2 + 2 * TURNS


def test_a_slow_model_gets_one_such_run_in_a_turn():
    sampler = Sampler(Clock(run_ms=1000.0).timed, Measurement(warmup=3, repeat=5), TURNS)
    turns_of(sampler)
    assert len(sampler.warmup_ms) == 3 + TURNS


def test_a_turn_whose_time_is_over_has_one_sample():
    sampler = Sampler(Clock().timed, Measurement(repeat=20), TURNS)
    sampler.take_turn(limit_s=-1)
    assert len(sampler.samples_ms) == 1


def test_runs_in_a_sample_grow_until_it_lasts_long_enough():
    clock = Clock(run_ms=1.0)
    sampler = Sampler(clock.timed, Measurement(warmup=0, repeat=2, min_repeat_ms=10))
    sampler.take_turn()
    assert sampler.number >= 10
    assert clock.runs[-2:] == [sampler.number] * 2


def test_partners_wait_for_each_other(tmp_path):
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "turns"))
        listening.listen()

        def answer():
            connection, _ = listening.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    heard.append(line.strip())
                    lines.write("done\n")
                    lines.flush()

        thread = threading.Thread(target=answer)
        thread.start()
        partner = Partner(str(tmp_path / "turns"), Measurement())
        partner.begin(threads=2)
        partner.pass_on()
        assert heard == ["threads 2", "turn"]
        partner.close()
        thread.join()


def test_a_partner_that_ends_is_left_and_the_other_continues(tmp_path, capsys):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "turns"))
        listening.listen()
        partner = Partner(str(tmp_path / "turns"), Measurement())
        listening.accept()[0].close()
        partner.begin(threads=1)
        partner.pass_on()
    assert capsys.readouterr().err.count("the baseline is no longer measured") == 1


def test_a_partner_that_is_not_there_is_left(tmp_path, capsys):
    partner = Partner(str(tmp_path / "nothing"), Measurement())
    partner.begin(threads=1)
    assert "no longer measured" in capsys.readouterr().err
