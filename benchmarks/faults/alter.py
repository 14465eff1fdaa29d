"""Alter the contents of results, and of tvmake's notes about them."""

import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from faults.disturbed import Disturbed

MOST = 12
"""Files in one round."""


def alter_results(at: Disturbed) -> None:
    """Some results are damaged or altered, half of them with the times they had."""
    for path in _some(at, at.files(at.project.results)):
        data, known = path.read_bytes(), path.stat()
        altered = at.rng.choice(MUTATIONS)(data, at.rng)
        path.write_bytes(altered)
        if at.rng.random() < 0.5:
            os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
        if altered != data:
            at.altered[path] = altered
            at.notes.append(f"altered {path.relative_to(at.project.results)}")


def alter_notes(at: Disturbed) -> None:
    """Some of the notes in ``.snakemake`` are damaged: Snakemake's records and tvmake's."""
    state = at.project.directory / ".snakemake"
    for path in _some(at, at.files(state / "metadata", state / "tvmake-jobs") + sorted(state.glob("tvmake-*.json"))):
        with suppress(FileNotFoundError):
            path.write_bytes(at.rng.choice(MUTATIONS)(path.read_bytes(), at.rng))
            at.notes.append(f"damaged {path.relative_to(state)}")


def _some(at: Disturbed, files: list[Path]) -> list[Path]:
    return at.rng.sample(files, min(len(files), at.rng.randint(1, MOST)))


def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"\0"
    index = rng.randrange(len(data))
    return data[:index] + bytes([data[index] ^ (1 << rng.randrange(8))]) + data[index + 1 :]


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))] if data else b"\0"


def _lengthen(data: bytes, rng: random.Random) -> bytes:
    return data + rng.randbytes(rng.randint(1, 100))


def _empty(_data: bytes, _rng: random.Random) -> bytes:
    return b""


def _other_digit(data: bytes, rng: random.Random) -> bytes:
    """Another digit of a text, which stays one that can be read."""
    positions = [match.start() for match in re.finditer(rb"\d", data)]
    if not positions:
        return _flip(data, rng)
    index = rng.choice(positions)
    return data[:index] + str((data[index] - ord("0") + rng.randint(1, 9)) % 10).encode() + data[index + 1 :]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (_flip, _flip, _cut, _lengthen, _empty, _other_digit)
