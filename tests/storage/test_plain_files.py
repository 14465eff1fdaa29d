"""Files from elsewhere: plain ones only, and the same from the first byte to the last."""

import os
import socket
from pathlib import Path

import pytest

from tvmake.errors import InputError
from tvmake.storage.files import digest_file
from tvmake.storage.plain_files import NotPlainError, open_plain, read_plain, unchanged


@pytest.mark.parametrize("what", ["pipe", "socket", "device", "hollow"])
def test_what_is_not_a_plain_file_is_refused_at_once(tmp_path: Path, what: str):
    path = tmp_path / "x"
    match what:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            server = socket.socket(socket.AF_UNIX)
            server.bind(str(path))
        case "device":
            path.symlink_to("/dev/zero")
        case "hollow":
            with path.open("wb") as file:
                file.truncate(6 << 30)
    with pytest.raises(OSError) as caught:
        digest_file(path)
    assert isinstance(caught.value, NotPlainError) or what == "socket"


def test_a_plain_file_is_read_through_a_link_too(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    with open_plain(tmp_path / "link") as file:
        assert file.read() == b"content"


def test_a_file_that_is_larger_than_any_of_its_kind_is_refused_unread(tmp_path: Path):
    (tmp_path / "file").write_bytes(bytes(2 << 20))
    with pytest.raises(InputError, match="is not a lock: larger than 1 MiB"):
        read_plain(tmp_path / "file", 1 << 20, "lock")


@pytest.mark.parametrize("change", ["write", "replace", "remove", "same content"])
def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path, change: str):
    path = tmp_path / "model"
    path.write_bytes(b"before")
    with pytest.raises(InputError, match="changed while it was read"), unchanged([path]):
        match change:
            case "write":
                path.write_bytes(b"afterw")
            case "replace":
                (tmp_path / "new").write_bytes(b"before")
                (tmp_path / "new").replace(path)
            case "remove":
                path.unlink()
            case "same content":
                other = path.stat().st_mtime_ns
                path.write_bytes(b"before")
                os.utime(path, ns=(other, other + 1))


def test_files_that_stay_or_stay_away_are_fine(tmp_path: Path):
    (tmp_path / "model").write_bytes(b"x")
    with unchanged([tmp_path / "model", tmp_path / "none"]):
        (tmp_path / "model").read_bytes()
