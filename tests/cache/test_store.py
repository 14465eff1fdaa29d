"""Directories and object stores: storing, finding, putting aside, making room."""

import errno
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cache.examples import Run, entry_of, point_at
from tests.patience import HANG_S
from tests.requirements import need_module
from tvmake.cache.directory import DirectoryStore
from tvmake.cache.errors import CacheTroubleError
from tvmake.cache.inspect import inspect
from tvmake.cache.line import read_lines
from tvmake.cache.open import open_store
from tvmake.cache.step import run_cached
from tvmake.cache.store import Stored, least_recently_used
from tvmake.config.cache import CacheConfig
from tvmake.errors import InputError, MachineError
from tvmake.storage.files import TEMPORARY_PREFIX
from tvmake.storage.temporary import locked_directory

ROOT = Path(__file__).resolve().parents[2]


def store_of(url: str, **options):
    return open_store(CacheConfig(where=url, **options))


def read(store, key: str) -> bytes | None:
    with store.open(key) as opened:
        if opened is None:
            return None
        file, size = opened
        data = file.read()
        assert len(data) == size
        return data


def put(store, key: str, data: bytes) -> None:
    store.put(key, len(data), lambda file: file.write(data))


def keys(store) -> list[str]:
    return sorted(entry.key for entry in store.entries())


def key_of(number: int) -> str:
    return f"{number:064x}"


# --- any store --------------------------------------------------------------------------------------------------------


def test_an_empty_place_has_nothing_and_is_not_an_error(url):
    store = store_of(url)
    assert read(store, key_of(1)) is None
    assert store.entries() == []
    assert store.shrink(0) == []
    store.remove([key_of(1)])


def test_what_is_stored_is_found_by_others_and_may_be_replaced_and_removed(url):
    put(store_of(url), key_of(1), b"one")
    put(store_of(url), key_of(2), b"two")
    put(store_of(url), key_of(1), b"three")
    store = store_of(url)
    assert read(store, key_of(1)) == b"three"
    assert [(one.key, one.size) for one in sorted(store.entries(), key=lambda one: one.key)] == [
        (key_of(1), 5),
        (key_of(2), 3),
    ]
    assert all(abs(entry.used_at - time.time()) < HANG_S for entry in store.entries())
    assert store.problem() is None
    store.remove([key_of(1)])
    assert keys(store) == [key_of(2)]


def test_a_failure_half_way_leaves_nothing_to_be_found(url):
    store = store_of(url)

    def fails(file) -> None:
        file.write(b"half")
        raise OSError(errno.EIO, "a disk that fails")

    with pytest.raises(CacheTroubleError):
        store.put(key_of(1), 8, fails)
    assert read(store, key_of(1)) is None
    assert store.entries() == []


def test_steps_of_two_checkouts_share_any_place(url, run, again, monkeypatch, capsys):
    point_at(monkeypatch, CacheConfig(where=url))
    assert not run.step()
    assert again.step()
    assert capsys.readouterr().err == ""


def test_a_bad_entry_is_removed_anywhere_and_replaced(url, run, again, monkeypatch, capsys):
    point_at(monkeypatch, CacheConfig(where=url))
    run.step()
    store = store_of(url)
    put(store, run.key, (read(store, run.key) or b"")[:-1])
    assert not again.step()
    assert "(removed)" in capsys.readouterr().err
    assert run.step()


def test_what_was_unused_for_longest_goes_first(url):
    store = store_of(url)
    for number in range(4):
        put(store, key_of(number), bytes(100))
    time.sleep(0.02 if "s3" not in url else 1.05)  # S3 tells times to the second
    put(store, key_of(4), bytes(100))
    store.note_use(key_of(0))
    gone = store.shrink(250)
    assert sorted(one.key for one in gone) == [key_of(1), key_of(2), key_of(3)]
    assert keys(store) == [key_of(0), key_of(4)]


def test_a_size_limit_is_kept_with_every_entry_and_what_is_too_large_is_left_out(url):
    store = store_of(url, size_limit=1_000)
    for number in range(8):
        put(store, key_of(number), bytes(300))
        assert sum(entry.size for entry in store.entries()) <= 1_000
        assert key_of(number) in keys(store)
    with pytest.raises(CacheTroubleError, match="larger than the size limit"):
        put(store, key_of(9), bytes(1_001))
    assert len(keys(store)) == 3


@pytest.mark.parametrize("seed", range(20))
def test_no_more_goes_than_has_to(seed):
    chance = random.Random(seed)
    entries = [Stored(key_of(n), chance.randint(0, 50), chance.choice([1.0, 2.0, chance.random()])) for n in range(30)]
    to_free = chance.randint(-10, 900)
    gone = least_recently_used(entries, to_free)
    assert sum(one.size for one in gone) >= min(to_free, sum(one.size for one in entries))
    assert sum(one.size for one in gone[:-1]) < max(to_free, 1)
    kept = set(entries) - set(gone)
    assert not kept or not gone or max(one.used_at for one in gone) <= min(one.used_at for one in kept)


# --- an object store that is away ---------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_reached_costs_one_warning_and_the_stage_runs(run, monkeypatch, capsys):
    need_module("s3fs", "pip install --group test")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # each step is a process of its own
    with socket.socket() as taken:  # a port where nobody answers
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        point_at(monkeypatch, CacheConfig(where="s3://away/cache"))
        assert not run.step()
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert said.err.startswith("warning: cache s3://away/cache: cannot be reached (")
    assert [line.cache for line in read_lines(said.out)] == ["unavailable"]


def test_a_bucket_that_is_not_there_is_a_warning(s3, run, monkeypatch, capsys):
    point_at(monkeypatch, CacheConfig(where="s3://no-such-bucket/cache"))
    assert not run.step()
    assert "warning: cache s3://no-such-bucket/cache" in capsys.readouterr().err


def test_an_address_of_an_unknown_kind_is_refused():
    with pytest.raises(InputError, match="not an address that fsspec knows"):
        store_of("nosuch://place")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MachineError) as caught:
        store_of("gs://bucket/cache")
    assert "pip install gcsfs" in str(caught.value)


# --- a directory --------------------------------------------------------------------------------------------------------


def test_a_new_directory_is_its_owners_alone(cache, run):
    run.step()
    assert cache.stat().st_mode & 0o777 == 0o700
    assert entry_of(cache, run).stat().st_mode & 0o777 == 0o600
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_a_directory_that_a_group_shares_has_entries_that_the_group_shares(cache, run):
    cache.mkdir()
    cache.chmod(0o770)
    run.step()
    assert entry_of(cache, run).stat().st_mode & 0o777 == 0o660
    assert (cache / "entries").stat().st_mode & 0o770 == 0o770


def test_an_entry_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path):
    store = DirectoryStore(tmp_path / "cache", None)
    put(store, key_of(1), bytes(5_000_000))
    with store.open(key_of(1)) as opened:
        assert opened is not None
        store.remove([key_of(1)])
        assert len(opened[0].read()) == 5_000_000


def store_and_take(where: str, home: str, seed: int, count: int, limit: int, wrong: "multiprocessing.Queue") -> None:
    """Steps with few inputs, so that processes meet, in a cache that is too small for them."""
    os.environ["TVMAKE_CACHE"] = f'{{"where": "{where}", "size_limit": {limit}}}'
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    chance = random.Random(seed)
    hits = 0
    try:
        for number in range(count):
            which = chance.randrange(12)
            run = Run(Path(home) / f"{seed}-{number}", seed=which, size=1_000 + 700 * which)
            hits += run.step()
        wrong.put(("hits", hits))
    except BaseException as error:  # noqa: BLE001
        wrong.put(("error", repr(error)))


def test_several_processes_store_take_and_make_room_at_once(tmp_path, capfd):
    cache, limit = tmp_path / "cache", 60_000
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    processes = [
        context.Process(target=store_and_take, args=(str(cache), str(tmp_path / "home"), seed, 40, limit, answers))
        for seed in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANG_S)
    said = [answers.get(timeout=HANG_S) for _ in processes]
    assert [kind for kind, _ in said] == ["hits"] * 3, said
    assert sum(hits for _, hits in said) > 10
    assert capfd.readouterr().err == ""
    store = DirectoryStore(cache, limit)
    assert 0 < sum(path.stat().st_size for path in (cache / "entries").iterdir()) <= limit
    assert all(looked.problem is None for looked in inspect(store, None, thoroughly=True))
    assert not list(cache.rglob(".tvmake-*"))


def test_another_process_that_holds_the_lock_for_long_costs_a_warning(cache, run, monkeypatch, capsys):
    from filelock import FileLock

    from tvmake.cache import directory

    monkeypatch.setattr(directory, "PATIENCE_S", 0.2)
    cache.mkdir(mode=0o700)
    script = "import sys\nfrom filelock import FileLock\nlock = FileLock(sys.argv[1])\nlock.acquire()\nprint(flush=True)\nsys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(cache / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout and holder.stdout.readline()
        assert not run.step()
        assert "another process holds its lock; the result is not stored" in capsys.readouterr().err
    finally:
        holder.kill()
        holder.wait()
    with FileLock(cache / "lock", timeout=HANG_S):  # it ends with its holder
        pass
    assert list((cache / "entries").iterdir()) == []


# --- kills --------------------------------------------------------------------------------------------------------------

WRITES = ("os.rename", "os.mkdir", "os.chmod", "os.remove", "os.utime", "os.rmdir", "fcntl.flock")


def dies_at(number: int, positions: tuple[str, ...]) -> None:
    """Kill this process at its Nth change of a file below these directories."""
    left = [number]

    def listen(event: str, arguments: tuple) -> None:
        writes = event in WRITES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE)
        if not writes or not any(str(part).startswith(positions) for part in arguments if isinstance(part, str | Path)):
            return
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(listen)


def killed_at(number: int, run: Run, cache: Path) -> bool:
    """Run a step in a process that dies at its so-maniest write; whether it lived to do as many."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            dies_at(number, (str(cache), str(run.directory / "out")))
            run_cached(run.work, run.stage)
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status == -signal.SIGKILL


@pytest.mark.parametrize("what", ["miss", "hit", "refusal", "eviction"])
def test_a_kill_at_any_write_harms_neither_the_cache_nor_the_next_run(quick, monkeypatch, what):
    cache = quick / "cache"
    limit = 5_500 if what == "eviction" else None  # one entry has about 4,000 bytes
    point_at(monkeypatch, CacheConfig(where=str(cache), size_limit=limit))
    other = Run(quick / "other", seed=5)
    kills = 0
    while True:
        run = Run(quick / f"{kills}")
        store = DirectoryStore(cache, None)
        store.remove(keys(store))
        if what == "eviction":
            other.step()
        elif what != "miss":
            run.step()
            if what == "refusal":
                entry = entry_of(cache, run)
                entry.write_bytes(entry.read_bytes()[:-1])
        if not killed_at(kills + 1, run, cache):
            break
        kills += 1
        if what != "refusal":
            assert all(looked.problem is None for looked in inspect(store, None, thoroughly=True))
        # In another checkout, as in this one.
        run.step()
        assert Run(quick / f"{kills}-again").step()
        assert all(looked.problem is None for looked in inspect(store, None, thoroughly=True))
        with locked_directory(cache / "entries", TEMPORARY_PREFIX):  # as the next one who writes there
            pass
        assert not list(cache.rglob(f"{TEMPORARY_PREFIX}*"))
    assert kills >= {"miss": 5, "hit": 5, "refusal": 6, "eviction": 5}[what]


def test_writers_that_are_killed_at_any_moment_leave_nothing_that_is_taken_for_whole(cache, tmp_path):
    chance = random.Random(0)
    kept = 0
    for round_ in range(8):
        hears, tells = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                for number in range(1000):
                    Run(tmp_path / "home" / f"{round_}-{number}", seed=100 * round_ + number, size=3_000_000).step()
                    os.write(tells, b".")
            finally:
                os._exit(1)
        assert os.read(hears, 1)
        time.sleep(chance.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(tells)
        kept += 1 + len(os.read(hears, 1000))
        os.close(hears)
        store = DirectoryStore(cache, None)
        assert all(looked.problem is None for looked in inspect(store, None, thoroughly=True))
    Run(tmp_path / "last", seed=5_000).step()
    assert not list(cache.rglob(".tvmake-*"))
    assert len(store.entries()) > kept
