"""Kills, full disks and missing rights: nothing that was written is lost, and nothing half-written is read."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patience import wait_until
from tests.records.examples import CONTEXT, CONV, digests, files, record
from tests.requirements import require
from tests.workflow.test_faults import small_disk
from tvmake.errors import MachineError
from tvmake.records.store import RecordStore
from tvmake.records.verify import verify

ROOT = Path(__file__).resolve().parents[2]


def writer(store: RecordStore, notes: Path, first: int, count: int = 10_000, batch: int = 1) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.records.writer", store.root, notes, first, count, batch]
    return subprocess.Popen([str(part) for part in command], cwd=ROOT)


def noted(notes: Path) -> list[str]:
    return [line for line in notes.read_text().splitlines(keepends=False) if len(line) == 64] if notes.exists() else []


def wait_for(count: int, *notes: Path) -> None:
    wait_until(lambda: all(len(noted(note)) >= count for note in notes))


def test_every_record_that_was_flushed_survives_a_kill_of_its_writer(store, tmp_path):
    notes = tmp_path / "notes"
    chance = random.Random(0)
    for round_ in range(4):
        process = writer(store, notes, first=round_ * 100_000, batch=chance.choice([1, 16]))
        wait_for(len(noted(notes)) + 20, notes)
        time.sleep(chance.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        loaded = digests(store.load(CONTEXT, CONV))
        assert len(loaded) == len(set(loaded))
        assert set(noted(notes)) <= set(loaded)
    assert verify(store).findings == []


def test_two_processes_that_append_to_one_workload_lose_nothing(store, tmp_path):
    notes = [tmp_path / "first", tmp_path / "second"]
    processes = [writer(store, note, first=index * 100_000, count=99, batch=3) for index, note in enumerate(notes)]
    read = []
    while any(process.poll() is None for process in processes):
        # A reader meanwhile sees whole records only, and takes none away.
        read.append(len(store.load(CONTEXT, CONV)))
    assert [process.returncode for process in processes] == [0, 0]
    assert read == sorted(read)
    loaded = digests(store.load(CONTEXT, CONV))
    assert sorted(loaded) == sorted(noted(notes[0]) + noted(notes[1]))
    assert len(loaded) == 198
    assert verify(store).findings == []
    assert store.journal(CONTEXT, CONV).count_quarantined() == 0


def test_writers_continue_while_one_of_them_is_killed_and_bad_lines_are_set_aside(store, tmp_path):
    notes = [tmp_path / "first", tmp_path / "second"]
    first, second = (writer(store, note, first=index * 100_000) for index, note in enumerate(notes))
    wait_for(10, *notes)
    first.kill()
    with store.journal(CONTEXT, CONV).path.open("ab") as file:
        file.write(b"noise\n")
    for _ in range(5):
        store.load(CONTEXT, CONV)
    wait_for(len(noted(notes[1])) + 20, notes[1])
    second.kill()
    assert [first.wait(), second.wait()] == [-signal.SIGKILL] * 2
    loaded = set(digests(store.load(CONTEXT, CONV)))
    assert set(noted(notes[0]) + noted(notes[1])) <= loaded
    assert store.journal(CONTEXT, CONV).count_quarantined() >= 1


def test_a_file_that_is_replaced_while_others_append_loses_none_of_theirs(store, tmp_path):
    notes = tmp_path / "notes"
    process = writer(store, notes, first=0, count=120)
    wait_for(1, notes)
    while process.poll() is None:
        store.journal(CONTEXT, CONV).rewrite(lambda _: True)
    assert process.returncode == 0
    assert digests(store.load(CONTEXT, CONV)) == noted(notes)


def test_a_kill_between_setting_aside_and_replacing_sets_nothing_aside_twice(store):
    store.append(CONTEXT, CONV, [record(1), record(2)])
    path = store.journal(CONTEXT, CONV).path
    damaged = path.read_bytes().replace(b"evolutionary", b"revolution!!", 1)
    for _ in range(2):
        path.write_bytes(damaged)  # as if the new file had not got its name
        assert digests(store.load(CONTEXT, CONV)) == digests([record(2)])
        assert store.journal(CONTEXT, CONV).count_quarantined() == 1


@pytest.mark.parametrize("cut", [1, 2, 30, 200])
def test_what_a_killed_writer_left_is_set_aside_by_the_next_one_and_hides_nothing(store, cut):
    store.append(CONTEXT, CONV, [record(1), record(2)])
    path = store.journal(CONTEXT, CONV).path
    os.truncate(path, path.stat().st_size - cut)
    kept = [record(1), record(2)] if cut == 1 else [record(1)]  # a line that lacks its break only is whole
    assert digests(store.load(CONTEXT, CONV)) == digests(kept)
    assert store.journal(CONTEXT, CONV).count_quarantined() == 0  # its writer may be at it
    store.append(CONTEXT, CONV, [record(3)])
    assert digests(store.load(CONTEXT, CONV)) == digests([*kept, record(3)])
    assert store.journal(CONTEXT, CONV).count_quarantined() == (0 if cut == 1 else 1)


def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path):
    context = tmp_path / "disk"
    with small_disk(context, 200):
        store = RecordStore(context / "records")
        written = []
        with pytest.raises(MachineError, match="no space left on the disk") as caught:
            for number in range(10_000):
                batch = [record(10 * number + i) for i in range(7)]
                store.append(CONTEXT, CONV, batch)
                written += batch
        assert str(store.root) in str(caught.value)
        assert len(written) > 50
        assert digests(store.load(CONTEXT, CONV)) == digests(written)
        subprocess.run(["mount", "-o", "remount,size=400k", context], check=True)
        store.append(CONTEXT, CONV, batch)
        assert digests(store.load(CONTEXT, CONV)) == digests(written + batch)
        assert verify(store).findings == []


def test_a_disk_too_full_for_a_new_workload_is_one_clear_error(tmp_path):
    context = tmp_path / "disk"
    with small_disk(context, 8), pytest.raises(MachineError, match="no space left on the disk"):
        store = RecordStore(context / "records")
        for number in range(100):
            store.append(CONTEXT, f"{number:064x}", [record(number)])


def test_bad_lines_on_a_full_disk_stay_and_are_left_out(tmp_path):
    context = tmp_path / "disk"
    with small_disk(context, 100):
        store = RecordStore(context / "records")
        store.append(CONTEXT, CONV, [record(1), record(2)])
        path = store.journal(CONTEXT, CONV).path
        path.write_bytes(path.read_bytes().replace(b"evolutionary", b"revolution!!", 1))
        with pytest.raises(OSError, match="No space left"), (context / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        before = path.read_bytes()
        assert digests(store.load(CONTEXT, CONV)) == digests([record(2)])
        assert path.read_bytes() == before
        (context / "ballast").unlink()
        assert digests(store.load(CONTEXT, CONV)) == digests([record(2)])
        assert store.journal(CONTEXT, CONV).count_quarantined() == 1


def test_a_read_only_store_can_be_read_and_says_that_it_cannot_be_written(store, tmp_path):
    store.append(CONTEXT, CONV, [record(1)])
    context = tmp_path / "read-only"
    context.mkdir()
    mounted = subprocess.run(["mount", "--bind", store.root, context], capture_output=True, check=False)
    require(mounted.returncode == 0, "root, to mount file systems: run the tests as root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", context], check=True)
        frozen = RecordStore(context)
        assert digests(frozen.load(CONTEXT, CONV)) == digests([record(1)])
        for work in (
            lambda: frozen.append(CONTEXT, CONV, [record(2)]),
            lambda: frozen.append(CONTEXT, "e" * 64, [record(2)]),
            lambda: frozen.define(CONTEXT, CONV, {"name": "conv"}),
        ):
            with pytest.raises(MachineError, match="Read-only file system") as caught:
                work()
            assert "tuning.store" in caught.value.remedy
    finally:
        subprocess.run(["umount", context], check=True)
    assert digests(store.load(CONTEXT, CONV)) == digests([record(1)])


def test_a_store_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "store").write_text("")
    with pytest.raises(MachineError, match="Not a directory"):
        RecordStore(tmp_path / "store").append(CONTEXT, CONV, [record(1)])


def test_a_file_size_limit_is_one_clear_error_and_loses_nothing(store, tmp_path):
    script = f"ulimit -f 20; exec {sys.executable} -m tests.records.writer {store.root} {tmp_path / 'notes'} 0 10000 3"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "exceeds this process's limit on file sizes" in done.stderr
    assert digests(store.load(CONTEXT, CONV)) == noted(tmp_path / "notes") != []
    before = files(store.root)
    store.append(CONTEXT, CONV, [record(10**6)])
    assert files(store.root) != before


def test_a_pipe_instead_of_records_is_one_clear_error_and_is_not_waited_for(store):
    store.append(CONTEXT, CONV, [record(1)])
    path = store.journal(CONTEXT, CONV).path
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(MachineError, match="it is a pipe, not a file"):
        store.load(CONTEXT, CONV)
