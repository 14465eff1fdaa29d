"""Candidates on this machine: each one gets a result, and faulty ones do not affect the others."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.tune.measure import kernels
from tests.tune.measure.blocking_compiler import BlockingCompiler
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.processes import (
    children,
    cold_fork_servers,
    eventually,
    fork_servers,
    is_alive,
    kill,
    program,
    state,
    workers,
)
from tests.workflow.test_faults import small_disk
from tvmake.device.fingerprint import usable_cores
from tvmake.errors import MachineError
from tvmake.process.forkserver.pool import no_warm_servers
from tvmake.tune.measure.interface import Measured
from tvmake.tune.measure.local import LocalMeasurer
from tvmake.tune.measure.machine_faults import check_machine
from tvmake.tune.measure.scratch import Scratch
from tvmake.tune.measure.workers.forkserver import ForkServer
from tvmake.tune.measure.workers.protocol import CLOSE, END, NUMBER
from tvmake.tune.verify.kernel_runner import LocalKernelRunner

OUT_OF_MEMORY = "was ended by SIGKILL (out of memory?)"


def measured(measurer: LocalMeasurer, *candidates) -> dict[int, Measured]:
    results = list(measurer.measure(candidates))
    assert kernels.numbers(results) == sorted(candidate.number for candidate in candidates)
    return {result.number: result for result in results}


def test_every_candidate_is_built_and_timed(measurer: LocalMeasurer):
    results = measured(measurer, *(kernels.add(number) for number in (3, 1, 4, 15)))
    for result in results.values():
        assert result.status == "ok" and result.error is None
        assert len(result.samples_s) == 2 and min(result.samples_s) > 0
        assert result.build_s > 0 and result.run_s > 0


def test_a_kernel_with_a_dynamic_dimension_is_built_once_and_timed_at_each_size(measurer: LocalMeasurer):
    sized = kernels.rows(1, (4, 4096), weights=(0.25, 0.75))
    (result,) = measured(measurer, sized).values()
    assert result.status == "ok"
    small, large = result.samples_by_point
    assert len(small) == len(large) == 2 and min(large) > max(small) > 0
    assert result.samples_s == pytest.approx([0.25 * a + 0.75 * b for a, b in zip(small, large, strict=True)])


def test_no_candidates_is_no_work(measurer: LocalMeasurer):
    assert measured(measurer) == {}


def test_each_failure_belongs_to_its_candidate_and_has_one_descriptive_line(measurer: LocalMeasurer):
    results = measured(
        measurer,
        kernels.add(0),
        kernels.crashing(1),
        kernels.unbuildable(2),
        kernels.unknown_symbol(3),
        kernels.add(4),
    )
    assert {number: result.status for number, result in results.items()} == {
        0: "ok",
        1: "run_error",
        2: "build_error",
        3: "run_error",
        4: "ok",
    }
    assert results[1].error == "the kernel crashed with SIGABRT"
    assert "tcgen05_fence" in results[2].error
    assert "undefined symbol: no_such_function" in results[3].error
    for number in (1, 2, 3):
        assert "\n" not in results[number].error and results[number].samples_s == ()


@pytest.fixture
def impatient(warm: None) -> Iterator[LocalMeasurer]:
    """A measurer with limits that faulty candidates reach."""
    limits = QUICK.model_copy(update={"timeout_s": 5, "build_timeout_s": 3})
    with closing(LocalMeasurer(kernels.target(), limits, 2)) as measurer:
        yield measurer


def test_a_kernel_that_hangs_is_ended_after_its_time(impatient: LocalMeasurer):
    results = measured(impatient, kernels.hanging(0), kernels.add(1))
    assert results[0].status == "timeout" and results[0].error == "did not end within 5 s"
    assert results[1].status == "ok"
    assert workers() == []


def test_a_build_that_takes_too_long_is_ended_after_its_processor_time(impatient: LocalMeasurer):
    results = measured(impatient, kernels.slow_to_build(0), kernels.add(1))
    assert results[0].status == "timeout"
    assert results[0].error == "building did not end within 3 s of processor time"
    assert results[1].status == "ok"


def test_a_full_disk_is_not_a_candidates_failure(warm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with small_disk(tmp_path / "disk", 64):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "disk"))
        with closing(LocalMeasurer(kernels.target(), QUICK, 1)) as measurer:
            assert measured(measurer, kernels.add(0))[0].status == "ok"
            with pytest.raises(OSError, match="No space"), (tmp_path / "disk/fill").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            with pytest.raises(MachineError, match="no space left on the disk"):
                measured(measurer, kernels.add(1))
        assert [file.name for file in (tmp_path / "disk").iterdir()] == ["fill"]


def test_a_noexec_disk_is_not_a_candidates_failure(own_leases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = tmp_path / "disk"
    with small_disk(disk, 4000, "noexec"):
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        with pytest.raises(MachineError, match="its disk is mounted noexec"):
            LocalMeasurer(kernels.target(), QUICK, 1)
        with pytest.raises(MachineError, match="its disk is mounted noexec"):
            LocalKernelRunner().run(disk / "kernel.so", [], [], 0)
        assert list(disk.iterdir()) == []


def test_a_killed_builder_costs_its_candidate_only(measurer: LocalMeasurer, compiler: BlockingCompiler):
    compiler.block_next()
    results = measurer.measure([kernels.add(number) for number in range(3)])
    others = [next(results), next(results)]
    (builder,) = eventually(lambda: left if len(left := workers("build")) == 1 else [])
    kill(builder)
    (killed,) = results
    assert (killed.status, killed.error) == ("build_error", f"the builder {OUT_OF_MEMORY}")
    assert kernels.numbers([*others, killed]) == [0, 1, 2] and {result.status for result in others} == {"ok"}


def test_a_killed_runner_costs_its_candidate_only(measurer: LocalMeasurer, tmp_path: Path):
    running = tmp_path / "running"

    def kill_runner() -> None:
        eventually(running.is_dir)
        (runner,) = workers("run")  # one candidate is timed at a time
        kill(runner)

    killer = threading.Thread(target=kill_runner)
    killer.start()
    hanging = kernels.calling(0, ("mkdir", str(running), 511), ("pause",))
    results = measured(measurer, hanging, kernels.add(1), kernels.add(2))
    killer.join()
    assert (results[0].status, results[0].error) == ("run_error", f"the kernel {OUT_OF_MEMORY}")
    assert results[1].status == results[2].status == "ok"


@pytest.mark.parametrize("role", ["build", "run"])
def test_a_killed_fork_server_is_replaced_and_no_candidate_suffers(measurer: LocalMeasurer, role: str):
    kill(fork_servers(role)[0])
    results = measured(measurer, *(kernels.add(number) for number in range(3)))
    assert {result.status for result in results.values()} == {"ok"}


@pytest.mark.parametrize(
    ("message", "stays"),
    [pytest.param(END + NUMBER.pack(2**30), True, id="fails"), pytest.param(CLOSE, True, id="is closed"), (b"", False)],
)
def test_a_fork_server_removes_the_scratch_directory_of_a_job_that_is_gone_alone(
    tmp_path: Path, message: bytes, stays: bool
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    job, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with job, control:
        if message:
            job.send(message)
        job.shutdown(socket.SHUT_RDWR)
        with suppress(ChildProcessError):  # there is no such worker
            ForkServer(control, os.getpid(), None, scratch, None).serve()
    assert scratch.is_dir() == stays


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[Errno 11] Resource temporarily unavailable", "too many processes"),
        ("[Errno 24] Too many open files", "too many open files"),
        ("/usr/bin/ld: final link failed: No space left on device", "no space left on the disk"),
    ],
)
def test_exhausted_resources_are_not_a_candidates_failure(line: str, problem: str):
    with pytest.raises(MachineError, match=problem):
        check_machine(line)
    check_machine("the kernel crashed with SIGSEGV")


def test_a_fork_server_killed_during_a_build_costs_nothing(measurer: LocalMeasurer, compiler: BlockingCompiler):
    def kill_fork_server() -> None:
        eventually(compiler.is_blocking)
        kill(fork_servers("build")[0])

    compiler.block_next()
    killer = threading.Thread(target=kill_fork_server)
    killer.start()
    results = measured(measurer, kernels.add(0), kernels.add(1))
    killer.join()
    assert {result.status for result in results.values()} == {"ok"}


def test_a_cancelled_batch_leaves_nothing_running(measurer: LocalMeasurer, compiler: BlockingCompiler):
    compiler.block_next()
    results = measurer.measure([*(kernels.add(number) for number in range(2)), kernels.hanging(2)])
    next(results)
    results.close()
    assert workers() == []
    assert measured(measurer, kernels.add(3))[3].status == "ok"


def test_arguments_of_every_type_are_safe_to_run_on(measurer: LocalMeasurer):
    types = ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]
    candidates = [kernels.add(number, dtype) for number, dtype in enumerate(types)]
    # TVM's own filling gives indices like 1090600291, with which a gather crashes.
    candidates += [kernels.gather(100 + number, dtype) for number, dtype in enumerate(["int32", "int64", "uint16"])]
    assert {result.error for result in measured(measurer, *candidates).values()} == {None}


def test_threads_and_environment_reach_the_kernel(measurer: LocalMeasurer):
    results = measured(
        measurer,
        kernels.unless_zero(0, ("strcmp", ("getenv", "TVM_NUM_THREADS"), "1")),
        kernels.unless_zero(1, ("strcmp", ("getenv", "ASKED"), "yes")),
        kernels.unless_zero(2, ("strcmp", ("getenv", "ASKED"), "no")),
    )
    assert [results[number].status for number in range(3)] == ["ok", "ok", "run_error"]


def test_builds_pause_while_a_kernel_that_needs_every_core_is_timed(warm: None, tmp_path: Path):
    compiler = BlockingCompiler(tmp_path / "driver")
    # Whoever opens a named pipe to read waits until it is opened to write.
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    opened: list[int] = []

    def let_both_end() -> None:
        eventually(lambda: "T" in {state(worker) for worker in workers("build")})  # stopped, see proc(5)
        compiler.release()
        opened.append(os.open(gate, os.O_RDWR))

    compiler.block_next()
    watcher = threading.Thread(target=let_both_end)
    watcher.start()
    with closing(LocalMeasurer(kernels.target(), QUICK, 2, threads=usable_cores(), driver=compiler.path)) as busy:
        results = measured(busy, *(kernels.calling(n, ("open", str(gate), os.O_RDONLY)) for n in range(2)))
    watcher.join()
    os.close(opened[0])
    assert {result.status for result in results.values()} == {"ok"}


def test_a_target_that_cannot_be_prepared_is_one_clear_error(warm: None):
    broken = LocalMeasurer(kernels.target(), QUICK, 1, driver="no-such-compiler")
    with closing(broken), pytest.raises(MachineError, match=r"build workers cannot be prepared.*no-such-compiler"):
        list(broken.measure([kernels.add(0)]))


TUNING = """
import sys
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tvmake.tune.measure.local import LocalMeasurer
measurer = LocalMeasurer(kernels.target(), QUICK, 2, device_name="hanging", driver=sys.argv[1])
print(measurer._scratch.path, flush=True)
list(measurer.measure([kernels.hanging(number) for number in range(3)]))
"""
"""One candidate is being timed, and with a blocking compiler another is being built."""


def test_a_killed_tuning_process_leaves_no_process_and_no_file(own_leases: Path, tmp_path: Path):
    compiler = BlockingCompiler(tmp_path / "driver")
    compiler.block_next()
    with no_warm_servers():
        tuning = program(TUNING, compiler.path)
    scratch = Path(tuning.stdout.readline().strip())

    def descendants(role: str) -> list[int]:
        return [worker for server in cold_fork_servers(role, tuning.pid) for worker in children(server)]

    eventually(lambda: descendants("run") and descendants("build"))
    family = [*cold_fork_servers(parent=tuning.pid), *descendants("")]
    assert len(family) >= 4 and scratch.is_dir()
    kill(tuning.pid)
    tuning.wait()
    eventually(lambda: not any(is_alive(process) for process in family))
    eventually(lambda: not scratch.exists())


def test_leftovers_of_a_killed_machine_are_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, held = tmp_path / "tvmake-measuring-left", Scratch()
    left.mkdir()
    for name in ("lock", "content/kernel-1.so"):
        (left / name).parent.mkdir(exist_ok=True)
        (left / name).touch()
    fresh = Scratch()
    assert not left.exists() and held.path.is_dir()
    for scratch in (held, fresh):
        scratch.close()
    assert list(tmp_path.iterdir()) == []


ALONE = """
import sys
from contextlib import closing
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tvmake.tune.measure.local import LocalMeasurer
with closing(LocalMeasurer(kernels.target(), QUICK, 1, sys.argv[1])) as measurer:
    # Making a directory fails when it is there, so that a kernel beside another aborts.
    alone = [kernels.unless_zero(n, ("mkdir", sys.argv[2], 511), ("usleep", 100000), ("rmdir", sys.argv[2])) for n in range(5)]
    print(*sorted(result.status for result in measurer.measure(alone)))
"""


def test_two_tuning_jobs_never_time_at_once(warm: None, tmp_path: Path):
    jobs = [program(ALONE, "shared", str(tmp_path / "alone")) for _ in range(2)]
    assert [job.communicate()[0].split() for job in jobs] == [["ok"] * 5] * 2
