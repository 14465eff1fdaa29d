"""Work in forks: an item that crashes, hangs or is refused costs its own result and no other."""

import os
import signal
import time

from tvmake.process.isolation import Refused, map_isolated


def work(item: str) -> bytes:
    if item == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == "hang":
        time.sleep(3600)
    if item == "refuse":
        raise Refused("it is damaged")
    if item == "defect":
        raise ValueError
    return item.encode()


def results(*items: str, limit_s: int = 3600) -> list[object]:
    return [
        (str(result), result.is_final) if isinstance(result, Refused) else result
        for result in map_isolated(items, work, "it fails", limit_s)
    ]


def test_no_items_are_no_work():
    assert results() == []


def test_every_item_has_its_own_result():
    assert results("a", "refuse", "crash", "b", "defect", "crash") == [
        b"a",
        ("it is damaged", True),
        ("it fails: TVM ends with SIGSEGV", True),
        b"b",
        ("it fails: TVM ends with code 1", False),
        ("it fails: TVM ends with SIGSEGV", True),
    ]


def test_an_item_that_hangs_is_given_up_and_may_be_tried_again():
    assert results("hang", limit_s=1) == [("it fails: TVM does not end within 1 s", False)]
    assert results("a") == [b"a"]
