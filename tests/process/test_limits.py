"""Limits: what reads a small file cannot occupy the machine, whatever it is busy with."""

import os
import time
from pathlib import Path

import pytest

from tvmake.errors import InputError, MachineError
from tvmake.process.limits import Limits, isolated, limited, named, run_watched


def spin() -> None:
    with limited(Limits(processor_s=0.3, memory_mb=500), "a.file", "leave it"):
        pow(7, 9**9)  # holds the interpreter: no thread or signal handler of Python runs meanwhile


def grow() -> None:
    with limited(Limits(processor_s=600, memory_mb=60), "a.file"):
        kept = bytearray()
        while True:
            kept += bytes(1 << 20)


@pytest.mark.parametrize(("work", "problem"), [(spin, "more than 0 s"), (grow, "more than 60 MB of memory")])
def test_work_that_exceeds_its_limits_is_ended_with_a_line_that_names_the_file(work, problem: str):
    ended = run_watched(work)
    assert ended.code < 0
    assert isinstance(ended.exceeded, InputError)
    assert ended.exceeded.where == "a.file" and problem in ended.exceeded.problem


def test_limits_are_over_with_the_block_and_count_from_its_beginning():
    def work() -> int:
        before = bytes(80 << 20)
        for _ in range(3):
            with limited(Limits(processor_s=600, memory_mb=50), "a.file"):
                time.sleep(0.2)
        after = bytes(80 << 20)
        time.sleep(0.2)
        return len(before) == len(after)

    ended = run_watched(work)
    assert (ended.code, ended.exceeded) == (1, None)


def test_a_block_within_a_block_leaves_the_outer_one_in_force():
    def work() -> None:
        with limited(Limits(processor_s=600, memory_mb=60), "outer"):
            with limited(Limits(processor_s=600, memory_mb=900), "inner"):
                pass
            grow_on()

    def grow_on() -> None:
        kept = bytearray()
        while True:
            kept += bytes(1 << 20)

    exceeded = run_watched(work).exceeded
    assert exceeded is not None and exceeded.where == "outer"


def test_isolated_work_gives_its_answer_or_its_error():
    assert isolated(lambda: bytes(3 << 20), "a.file") == bytes(3 << 20)

    def refuse() -> bytes:
        raise MachineError("a.file", "needs a library", "install it")

    with pytest.raises(MachineError, match="needs a library"):
        isolated(refuse, "a.file")
    with pytest.raises(InputError, match="ended the process with SIGABRT"):
        isolated(lambda: os.abort(), "a.file")


def test_what_the_system_refuses_of_isolated_work_is_reported_and_nothing_is_called_damaged():
    with pytest.raises(MachineError, match="File name too long"):
        isolated(lambda: Path("n" * 300).read_bytes(), "net.onnx")


def test_larger_files_may_take_more(tmp_path: Path):
    small, large, hollow = (tmp_path / name for name in ("small", "large", "hollow"))
    small.write_bytes(b"x")
    large.write_bytes(bytes(10_000_000))
    with hollow.open("wb") as file:
        file.truncate(1 << 40)
    limits = [Limits.for_files([file]) for file in (small, large, hollow, tmp_path / "none")]
    assert limits[0].memory_mb < limits[1].memory_mb and limits[0].processor_s < limits[1].processor_s
    assert limits[2].memory_mb <= limits[0].memory_mb + 1 and limits[3].memory_mb <= limits[0].memory_mb


@pytest.mark.parametrize("code", [0, 3])
def test_code_that_ends_its_process_is_known_by_its_block(code: int):
    def work() -> None:
        with named("code of theirs"):
            os._exit(code)

    ended = run_watched(work)
    assert (ended.code, ended.is_whole, ended.within) == (code, False, "code of theirs")


def test_work_that_comes_to_its_end_is_whole_whatever_its_code():
    assert [run_watched(lambda code=code: code).is_whole for code in (0, 3)] == [True, True]


def test_reading_that_ends_its_process_as_if_it_had_succeeded_is_refused():
    with pytest.raises(InputError, match="ended the process with code 0"):
        isolated(lambda: os._exit(0), "a.file")
