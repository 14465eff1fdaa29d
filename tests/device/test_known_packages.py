"""Digests of packages that are not read again."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmake.device.known_packages import NOTES, SMALL_BYTES, known_digest, noted_digest
from tvmake.storage.files import digest_file
from tvmake.storage.notes.known_digests import SETTLED_NS

LARGE = bytes(range(256)) * (SMALL_BYTES // 256 + 1)


class Reader:
    """Reads files, and counts how often."""

    count = 0

    def __call__(self, path: Path) -> str:
        self.count += 1
        return digest_file(path / "mod.so" if path.is_dir() else path)


@pytest.fixture
def read() -> Reader:
    return Reader()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose last change is long enough ago."""
    (tmp_path / "store").mkdir()
    file = tmp_path / "package.tar"
    file.write_bytes(LARGE)
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    return file


def settle(change: Callable[[], object]) -> None:
    change()
    time.sleep(SETTLED_NS / 1e9 + 0.1)


def test_a_package_is_read_once(package: Path, read: Reader):
    root = package.parent / "store"
    assert noted_digest(package, root) is None
    digests = {known_digest(package, root, read) for _ in range(3)}
    assert digests == {digest_file(package), noted_digest(package, root)}
    assert read.count == 1


def test_another_content_of_the_same_size_and_time_is_read(package: Path, read: Reader):
    root, before = package.parent / "store", package.stat()
    known_digest(package, root, read)
    package.write_bytes(LARGE[::-1])
    os.utime(package, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert noted_digest(package, root) is None
    assert known_digest(package, root, read) == digest_file(package)


def test_a_package_that_was_just_written_is_read_again(tmp_path: Path, read: Reader):
    (tmp_path / "store").mkdir()
    (tmp_path / "package.tar").write_bytes(LARGE)
    for _ in range(2):
        known_digest(tmp_path / "package.tar", tmp_path / "store", read)
    assert read.count == 2


def test_every_file_of_an_unpacked_package_counts(package: Path, read: Reader):
    root = package.parent / "store"
    directory = root / "unpacked"
    settle(lambda: (directory.mkdir(), (directory / "mod.so").write_bytes(LARGE), (directory / "mod.json").touch()))
    for _ in range(2):
        known_digest(directory, root, read)
    assert read.count == 1
    (directory / "mod.json").write_bytes(b"x")
    known_digest(directory, root, read)
    (directory / "new").touch()
    known_digest(directory, root, read)
    assert read.count == 3


def test_digests_that_others_can_write_are_ignored(package: Path, read: Reader):
    root = package.parent / "store"
    known_digest(package, root, read)
    assert not (root / NOTES).stat().st_mode & 0o022
    (root / NOTES).chmod(0o666)
    known_digest(package, root, read)
    assert read.count == 2


def test_small_packages_are_read_each_time(tmp_path: Path, read: Reader):
    (tmp_path / "store").mkdir()
    settle(lambda: (tmp_path / "package.tar").write_bytes(LARGE[:SMALL_BYTES]))
    for _ in range(2):
        known_digest(tmp_path / "package.tar", tmp_path / "store", read)
    assert read.count == 2
