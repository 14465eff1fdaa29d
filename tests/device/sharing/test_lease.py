"""Leases: one at a time, each in its turn, and free when whoever holds one is gone."""

import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tvmake.device.sharing.lease import lease, lease_file, take, try_port


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))


def test_who_wants_it_again_at_once_lets_others_go_first():
    order: list[int] = []

    def work(number: int) -> None:
        for _ in range(15):
            with lease("board"):
                order.append(number)
                time.sleep(0.03)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    both = order[: len(order) - 1 - order[::-1].index(1 - order[-1]) + 1]
    assert sum(one == following for one, following in itertools.pairwise(both)) <= 6, order


def test_the_first_of_several_that_comes_free_is_taken_and_the_others_are_let_go():
    one, two = lease_file("one"), lease_file("two")
    _, held_one = take([one])
    _, held_two = take([two])
    threading.Timer(0.2, held_two.release).start()
    number, lock = take([one, two])
    assert number == 1
    held_one.release()
    again = take([one], is_over=lambda: True)
    assert again is not None
    again[1].release()
    assert take([two], is_over=lambda: True) is None
    lock.release()


HOLD = """
from tvmake.device.sharing.lease import lease
with lease("board"):
    print("in", flush=True)
    input()
"""


def test_a_killed_process_gives_its_lease_back():
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "in\n"
    holder.kill()
    holder.wait()
    with lease("board"):
        pass


def test_a_port_is_one_process_own():
    lock = try_port(20_000)
    assert lock is not None and try_port(20_000) is None
    lock.release()
    assert try_port(20_000) is not None
