"""Candidates on devices behind a tracker: the batch gets its results although devices come and go."""

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.farm import HOST, Farm, free_port
from tests.tune.measure.processes import eventually, workers
from tvmake.device.rpc.tracker import Tracker
from tvmake.errors import DeviceError
from tvmake.tune.measure import device_threads
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.measure.remote import RPCMeasurer

pytest_plugins = "tests.tune.measure.farm_fixtures"
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("patience", "warm")]

SERVERS = 2

MANY = 12


class Remote:
    """A measurer on a farm, with its warnings."""

    def __init__(self, farm: Farm, **options: object):
        self.warnings: list[str] = []
        options = {"session_timeout_s": 2 * HANG_S, "wait_s": 10, **options}
        measure = QUICK.model_copy(update={"timeout_s": options.pop("timeout_s", HANG_S)})
        tracker = Tracker(HOST, farm.port, options.pop("key", farm.key))
        self.measurer = RPCMeasurer(kernels.target(), measure, 2, tracker, warn=self.warnings.append, **options)

    def measure(self, *candidates: Candidate) -> dict[int, Measured]:
        return as_dict(candidates, list(self.measurer.measure(candidates)))

    def close(self) -> None:
        self.measurer.close()


def as_dict(candidates: Sequence[Candidate], results: Sequence[Measured]) -> dict[int, Measured]:
    assert kernels.numbers(results) == sorted(candidate.number for candidate in candidates)
    return {result.number: result for result in results}


def test_every_candidate_is_built_here_and_timed_there(farm: Farm):
    with closing(Remote(farm)) as remote:
        results = remote.measure(*(kernels.add(number) for number in range(6)))
        assert {result.status for result in results.values()} == {"ok"}
        assert all(len(result.samples_s) == 2 and min(result.samples_s) > 0 for result in results.values())
        assert remote.warnings == []
        assert workers("session") == []


def test_candidates_are_timed_on_all_servers_at_once(farm: Farm, tmp_path: Path):
    # Whoever opens a named pipe waits until the other end is opened.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with closing(Remote(farm)) as remote:
        results = remote.measure(
            kernels.calling(0, ("open", str(pipe), os.O_RDONLY)), kernels.calling(1, ("open", str(pipe), os.O_WRONLY))
        )
        assert {result.status for result in results.values()} == {"ok"}


def test_each_failure_is_its_candidates_own(farm: Farm):
    with closing(Remote(farm)) as remote:
        results = remote.measure(kernels.add(0), kernels.unbuildable(1), kernels.gather(2, "int64"), bad_arguments(3))
        assert [results[number].status for number in range(4)] == ["ok", "build_error", "ok", "run_error"]
        assert "shape" in results[3].error and "\n" not in results[3].error
        assert remote.warnings == []


def bad_arguments(number: int) -> Candidate:
    """A kernel that is called with a tensor of another shape than it takes."""
    return Candidate(number, kernels.add(number).module, kernels.add(number, size=7).args_info)


def test_a_kernel_that_hangs_is_ended_after_its_time_and_frees_its_server(farm: Farm):
    with closing(Remote(farm, timeout_s=1, session_timeout_s=10)) as impatient:
        for result in impatient.measure(*(kernels.hanging(number) for number in range(2))).values():
            assert result.status == "timeout" and result.error == "did not end within 1 s"
        assert impatient.warnings == []
    with closing(Remote(farm)) as remote:
        assert {result.status for result in remote.measure(kernels.add(0), kernels.add(1)).values()} == {"ok"}
        assert remote.warnings == []


def test_a_server_that_is_busy_is_waited_for(farm: Farm):
    offers = [farm.tracker.request(HANG_S) for _ in farm.servers]  # a server whose client does not come waits for 6 s
    assert all(offers)
    with closing(Remote(farm)) as remote:
        assert remote.measure(kernels.add(0))[0].status == "ok"


def test_a_server_killed_while_a_kernel_runs_costs_no_candidate_and_is_named(farm: Farm, tmp_path: Path):
    lost, _ = farm.servers
    running = [tmp_path / "0", tmp_path / "1"]
    # Whoever opens a named pipe to read waits until it is opened to write.
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    candidates = [
        *(
            kernels.calling(n, ("mkdir", str(path), 511), ("open", str(gate), os.O_RDONLY))
            for n, path in enumerate(running)
        ),
        *(kernels.add(number) for number in range(2, 6)),
    ]
    opened: list[int] = []

    def lose() -> None:
        eventually(lambda: all(path.is_dir() for path in running))
        farm.lose(lost)
        opened.append(os.open(gate, os.O_RDWR))

    loser = threading.Thread(target=lose)
    loser.start()
    with closing(Remote(farm)) as remote:
        results = remote.measure(*candidates)
        loser.join()
        os.close(opened[0])
        assert {result.status for result in results.values()} == {"ok"}
        assert f"device {lost} was lost (it closed the connection); its candidate is tried once more" in remote.warnings


def take(results: Iterator[Measured], count: int, then) -> Iterator[Measured]:
    for number, result in enumerate(results, 1):
        if number == count:
            then()
        yield result


def test_losing_every_device_fails_no_candidate_and_makes_the_next_batch_an_error(farm: Farm):
    # Long enough that most of them are still to be timed when all devices are lost.
    candidates = [kernels.lasting(number, 1000) for number in range(MANY)]

    def lose_all() -> None:
        for address in list(farm.servers):
            farm.lose(address)

    with closing(Remote(farm)) as remote:
        results = as_dict(candidates, [*take(remote.measurer.measure(candidates), 2, then=lose_all)])
        statuses = [result.status for result in results.values()]
        assert set(statuses) == {"ok", "device_lost"} and statuses.count("ok") >= 2
        set_aside = [warning for warning in remote.warnings if "set aside" in warning]
        assert len(set_aside) == 2 and "0 left with key 'phone'" in set_aside[-1]
        with pytest.raises(DeviceError, match="no server with key 'phone'"):
            remote.measure(kernels.add(0))


def test_devices_that_hang_are_given_up(farm: Farm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_threads, "CONNECT_S", 1.0)
    monkeypatch.setattr(device_threads, "BUSY_WAIT_S", 1.0)
    monkeypatch.setattr("tvmake.device.address.CONNECT_S", 1.0)  # the queue of what hangs may be full
    for address in farm.servers:
        farm.freeze(address)
    with closing(Remote(farm, wait_s=HANG_S)) as remote:
        results = remote.measure(kernels.add(0), kernels.add(1))
        assert {result.status for result in results.values()} == {"device_lost"}
        assert len(remote.warnings) == 2 and all("came free in 1 s; set aside" in line for line in remote.warnings)
    for address in list(farm.servers):
        farm.lose(address)


def test_a_device_that_comes_back_is_used_again(farm: Farm):
    first, second = farm.servers
    farm.lose(second)
    eventually(lambda: farm.tracker.servers() == [first])
    candidates = [kernels.lasting(number, 100) for number in range(MANY)]

    def restart() -> None:
        farm.lose(first)
        farm.add(first.port)

    with closing(Remote(farm, wait_s=HANG_S)) as remote:
        results = as_dict(candidates, [*take(remote.measurer.measure(candidates), 2, then=restart)])
        assert {result.status for result in results.values()} == {"ok"}
        assert not any("set aside" in warning and str(first) in warning for warning in remote.warnings)


def test_a_kernel_that_takes_devices_down_is_not_tried_a_third_time(farm: Farm):
    farm.restore(3)
    # A kernel's crash ends TVM's Python server for good.
    with closing(Remote(farm)) as remote:
        results = remote.measure(kernels.crashing(0), *(kernels.lasting(number, 50) for number in range(1, 6)))
        assert results[0].status == "run_error" and "was lost each of the 2 times" in results[0].error
        assert {results[number].status for number in range(1, 6)} == {"ok"}
        assert remote.measure(kernels.add(0))[0].status == "ok"


def test_a_wrong_key_is_one_clear_error_after_the_wait(farm: Farm):
    missing = pytest.raises(DeviceError, match=r"no server with key 'fone' at tracker .* \(waited 0.5 s\)")
    with closing(Remote(farm, key="fone", wait_s=0.5)) as remote, missing:
        remote.measure(kernels.add(0))


def test_a_tracker_that_is_down_is_one_clear_error():
    gone = free_port()
    down = pytest.raises(DeviceError, match=f"no tracker at {HOST}:{gone} .connection refused")
    with closing(RPCMeasurer(kernels.target(), QUICK, 1, Tracker(HOST, gone, "phone"), wait_s=0.1)) as remote, down:
        list(remote.measure([kernels.add(0)]))


def test_a_hanging_tracker_is_not_reported_as_absent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tvmake.device.rpc.tracker.CONNECT_S", 1.0)
    with socket.create_server((HOST, 0)) as silent:
        tracker = Tracker(HOST, silent.getsockname()[1], "phone")
        with pytest.raises(DeviceError, match=r"the tracker at .* does not answer\n  restart it if it hangs"):
            tracker.servers()


def test_something_else_at_the_trackers_port_is_one_clear_error():
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]

        def say_something() -> None:
            connection, _ = other.accept()
            connection.sendall(b"SSH-2.0-x\r\n")
            time.sleep(0.2)
            connection.close()

        speaker = threading.Thread(target=say_something)
        speaker.start()
        wrong = pytest.raises(DeviceError, match="a program that is not a tvm tracker answers")
        with closing(RPCMeasurer(kernels.target(), QUICK, 1, Tracker(HOST, port, "phone"), wait_s=0)) as remote, wrong:
            list(remote.measure([kernels.add(0)]))
        speaker.join()


def test_a_cancelled_batch_leaves_nothing_running(farm: Farm):
    with closing(Remote(farm, timeout_s=2, session_timeout_s=10)) as remote:
        results = remote.measurer.measure([kernels.add(0), kernels.hanging(1), kernels.slow_to_build(2)])
        next(results)
        results.close()
        assert workers() == []
