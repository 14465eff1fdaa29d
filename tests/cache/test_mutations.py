"""Poisoned, truncated and swapped entries are never used: 1,000 of them, and forged ones."""

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.cache.examples import Run, entry_of, point_at
from tvmake.cache.line import read_lines
from tvmake.config.cache import CacheConfig
from tvmake.storage.files import canonical_json

MUTATIONS = 1_000


def flip(data: bytes, chance: random.Random) -> bytes:
    index = chance.randrange(len(data))
    return data[:index] + bytes([data[index] ^ 1 << chance.randrange(8)]) + data[index + 1 :]


def noise(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    count = chance.randint(1, 200)
    return data[:start] + chance.randbytes(count) + data[start + count :]


def zeros(data: bytes, chance: random.Random) -> bytes:
    """A block that a disk lost."""
    start = chance.randrange(len(data))
    count = min(chance.randint(1, 600), len(data) - start)
    return data[:start] + bytes(count) + data[start + count :]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def grow(data: bytes, chance: random.Random) -> bytes:
    return data + chance.randbytes(chance.randint(1, 300))


def insert(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + chance.randbytes(chance.randint(1, 100)) + data[start:]


def drop(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randint(1, 100) :]


def swap_parts(data: bytes, chance: random.Random) -> bytes:
    """Two parts of the content, or of a header, are swapped."""
    size = chance.randint(1, len(data) // 4)
    first = chance.randrange(len(data) - 2 * size)
    second = chance.randrange(first + size, len(data) - size)
    a, b = data[first : first + size], data[second : second + size]
    return data[:first] + b + data[first + size : second] + a + data[second + size :]


DAMAGES = (flip, noise, zeros, cut, grow, insert, drop, swap_parts)


def resealed(data: bytes, edit) -> bytes:
    """An entry whose header somebody edited and sealed again, as anyone who may write can without a secret."""
    seal, line, content = data.split(b"\n", 2)
    sealed = seal.split()[-1].decode()
    header = json.loads(line)
    content = edit(header, content) or content
    line = canonical_json(header).encode() + b"\n"
    return f"tvmake-cache 1 {hashlib.sha256(line).hexdigest()} {sealed}\n".encode() + line + content


def lengthened(header: dict, content: bytes) -> bytes:
    header["outputs"]["extra"] = {"sha256": hashlib.sha256(b"extra").hexdigest(), "size": 5}
    return content + b"extra"


def renamed(name: str):
    def edit(header: dict, _: bytes) -> None:
        files = header["outputs"]["workloads"]["files"]
        files[name] = files.pop("a.json")

    return edit


def in_each_others_way(header: dict, _: bytes) -> None:
    files = header["outputs"]["workloads"]["files"]
    files["empty.json/below"] = files.pop("deep/b.json")


FORGERIES = {
    "another key": lambda header, _: header.update(key="0" * 64),
    "other material": lambda header, _: header["material"].update(stage="build"),
    "other material and its key": lambda header, _: (
        header["material"].update(options=None)
        or header.update(key=hashlib.sha256(canonical_json(header["material"]).encode()).hexdigest())
    ),
    "another stage": lambda header, _: header.update(stage="build"),
    "an extra output": lengthened,
    "an output less": lambda header, _: header["outputs"].pop("tasks") and None,
    "a file instead of a directory": lambda header, _: header["outputs"].update(
        workloads={"sha256": "0" * 64, "size": 2032}
    ),
    "an extra member": lambda header, _: header.update(extra=1),
    "a negative size": lambda header, _: header["outputs"]["tasks"].update(size=-1),
    "a text for a size": lambda header, _: header["outputs"]["tasks"].update(size="64"),
    "a huge size": lambda header, _: header["outputs"]["tasks"].update(size=10**18),
    "another digest": lambda header, _: header["outputs"]["tasks"].update(sha256="0" * 64),
    "swapped files": lambda header, content: content[64:] + content[:64],
    "a file outside": renamed("../../../outside"),
    "an absolute path": renamed("/tmp/outside"),
    "a path with dots": renamed("a/../../../outside"),
    "a path with a backslash": renamed("..\\outside"),
    "a path with a null": renamed("a\0b"),
    "no name": renamed(""),
    "a name that is too long": renamed("x" * 300),
    "a name that is not in one spelling": renamed("a//b"),
    "files in each other's way": in_each_others_way,
}


def taken_or_refused(run: Run, capsys) -> str:
    """What became of a step: its outputs are right in any case, which ``step`` checks."""
    shutil.rmtree(run.directory / "out", ignore_errors=True)
    capsys.readouterr()
    came_from_cache = run.step()
    (line,) = read_lines(capsys.readouterr().out)
    assert came_from_cache == (line.cache == "hit")
    return line.cache


def test_none_of_1000_damaged_truncated_and_swapped_entries_is_used(quick, monkeypatch, capsys):
    chance = random.Random(20261121)
    cache = quick / "cache"
    point_at(monkeypatch, CacheConfig(where=str(cache)))
    runs = [Run(quick / str(seed), seed=seed, size=chance.choice([0, 40, 900, 4_000])) for seed in range(6)]
    for run in runs:
        run.step()
    good = {run.seed: entry_of(cache, run).read_bytes() for run in runs}
    counts = dict.fromkeys([damage.__name__ for damage in DAMAGES] + ["swapped entries", "swapped content"], 0)
    mutated = 0
    while mutated < MUTATIONS:
        run, other = chance.sample(runs, 2)
        kind = chance.choice(list(counts))
        if kind == "swapped entries":
            entry = good[other.seed]
        elif kind == "swapped content":
            entry = b"\n".join([*good[run.seed].split(b"\n", 2)[:2], good[other.seed].split(b"\n", 2)[2]])
        else:
            entry = next(damage for damage in DAMAGES if damage.__name__ == kind)(good[run.seed], chance)
        if entry == good[run.seed]:
            continue
        path = entry_of(cache, run)
        path.write_bytes(entry)
        mutated += 1
        counts[kind] += 1
        assert taken_or_refused(run, capsys) == "refused", (kind, mutated)
        # The stage ran, and its result replaced the bad entry.
        assert path.read_bytes().split(b"\n", 2)[2] == good[run.seed].split(b"\n", 2)[2]
    assert sum(counts.values()) == MUTATIONS
    assert min(counts.values()) > 50
    assert all(taken_or_refused(run, capsys) == "hit" for run in runs)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_entry_that_contradicts_itself_or_reaches_outside_is_not_used(cache, run, tmp_path, capsys, forgery):
    run.step()
    path = entry_of(cache, run)
    path.write_bytes(resealed(path.read_bytes(), FORGERIES[forgery]))
    outside = {file for file in tmp_path.rglob("*") if run.directory not in file.parents and cache not in file.parents}
    assert taken_or_refused(run, capsys) == "refused"
    assert outside == {
        file for file in tmp_path.rglob("*") if run.directory not in file.parents and cache not in file.parents
    }
    assert not Path("/tmp/outside").exists()


def poisoned(data: bytes) -> bytes:
    """Another output, every digest of the entry made to fit."""

    def edit(header: dict, content: bytes) -> bytes:
        header["outputs"]["tasks"]["sha256"] = hashlib.sha256(b"0" * 64).hexdigest()
        return b"0" * 64 + content[64:]

    return resealed(data, edit)


def test_what_digests_cannot_tell_a_secret_does(cache, run, again, tmp_path, monkeypatch, capsys):
    secret = tmp_path / "secret"
    secret.write_bytes(os.urandom(32).hex().encode())
    secret.chmod(0o600)
    point_at(monkeypatch, CacheConfig(where=str(cache), secret_file=str(secret)))
    run.step()
    path = entry_of(cache, run)
    path.write_bytes(poisoned(path.read_bytes()))
    assert taken_or_refused(again, capsys) == "refused"


@pytest.mark.parametrize("what", ["link", "pipe", "directory", "dangling link"])
def test_what_is_not_a_file_is_no_entry(cache, run, tmp_path, capsys, what):
    run.step()
    path = entry_of(cache, run)
    kept = tmp_path / "kept"
    path.rename(kept)
    match what:
        case "link":
            path.symlink_to(kept)
        case "dangling link":
            path.symlink_to(tmp_path / "nothing")
        case "pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()
    assert taken_or_refused(run, capsys) == "refused"
    assert kept.is_file()
    assert path.is_file() and not path.is_symlink()


def test_a_header_that_never_ends_or_nests_without_end_is_refused(cache, run, capsys):
    run.step()
    path = entry_of(cache, run)
    for line in (b"[" * 200_000 + b"\n", b'{"a":' * 100_000 + b"\n", b"x" * (17 << 20), b"\n", b"null\n", b"\xff\n"):
        seal = f"tvmake-cache 1 {hashlib.sha256(line).hexdigest()} -\n".encode()
        path.write_bytes(seal + line)
        assert taken_or_refused(run, capsys) == "refused"


def test_an_entry_of_a_later_format_is_left_to_run_the_stage(cache, run, capsys):
    run.step()
    path = entry_of(cache, run)
    path.write_bytes(path.read_bytes().replace(b"tvmake-cache 1", b"tvmake-cache 2", 1))
    assert taken_or_refused(run, capsys) == "refused"
