"""Atomic writes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tvmake.errors import MachineError
from tvmake.storage.files import (
    TEMPORARY_PREFIX,
    atomic_directory,
    atomic_path,
    canonical_json,
    copy_file,
    digest_bytes,
    digest_file,
    write_bytes,
    writing,
)


def test_a_write_appears_whole_with_the_umask_applied(tmp_path: Path):
    destination = tmp_path / "deep" / "file.bin"
    write_bytes(destination, b"content")
    assert destination.read_bytes() == b"content"
    umask = os.umask(0)
    os.umask(umask)
    assert destination.stat().st_mode & 0o777 == 0o666 & ~umask
    assert list(destination.parent.iterdir()) == [destination]


def test_an_error_while_writing_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path):
    destination = tmp_path / "file"
    write_bytes(destination, b"old")
    with pytest.raises(ValueError), atomic_path(destination) as temporary:
        temporary.write_bytes(b"half")
        raise ValueError
    assert destination.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [destination]


def test_a_killed_writer_leaves_the_old_file_and_the_next_writer_cleans_up(tmp_path: Path):
    destination = tmp_path / "file"
    write_bytes(destination, b"old")
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom tvmake.storage.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_bytes(b'half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(destination)], check=False)
    assert destination.read_bytes() == b"old"
    assert len(list(tmp_path.glob(f"{TEMPORARY_PREFIX}*"))) == 1
    write_bytes(destination, b"new")
    assert list(tmp_path.iterdir()) == [destination]


def test_a_writer_that_is_alive_keeps_its_temporary_file(tmp_path: Path):
    with atomic_path(tmp_path / "a") as temporary:
        write_bytes(tmp_path / "b", b"")
        assert temporary.exists()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENAMETOOLONG, "the name is too long"),
        (errno.ENOSPC, "no space left"),
        (errno.EROFS, "cannot be written"),
        (errno.EACCES, "cannot be written"),
    ],
)
def test_the_systems_refusals_become_one_line(tmp_path: Path, number: int, words: str):
    with pytest.raises(MachineError, match=words) as caught, writing(tmp_path / "x"):
        raise OSError(number, os.strerror(number))
    assert caught.value.exit_code == 3
    assert str(tmp_path / "x") in str(caught.value)


def test_a_full_disk_is_reported_and_leaves_no_file():
    full = Path("/dev/full")
    if not full.exists():
        pytest.fail("/dev/full is missing: this test needs Linux")
    with pytest.raises(MachineError, match="no space left"), writing(full), full.open("wb", buffering=0) as file:
        file.write(b"x")


def test_canonical_json_does_not_depend_on_key_order():
    assert canonical_json({"b": 1, "a": [1, 2]}) == canonical_json({"a": [1, 2], "b": 1}) == '{"a":[1,2],"b":1}'


def test_digests_are_full_sha256(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_file(tmp_path / "x") == digest_bytes(b"abc") == expected


def test_a_directory_replaces_a_file_and_a_link_but_not_what_the_link_leads_to(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").touch()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with atomic_directory(tmp_path / name) as directory:
            (directory / "made").touch()
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name / "made").exists()
    assert (tmp_path / "elsewhere" / "mine").exists()


def test_a_directory_instead_of_a_file_is_one_clear_error(tmp_path: Path):
    (tmp_path / "result").mkdir()
    with pytest.raises(MachineError, match=r"Is a directory[^\0]*move the file that has its name"):
        write_bytes(tmp_path / "result", b"")


def test_a_link_is_one_file_until_either_name_is_written_again(tmp_path: Path):
    source, link = tmp_path / "source", tmp_path / "deep" / "link"
    write_bytes(source, b"content")
    copy_file(source, link, may_link=True)
    assert link.read_bytes() == b"content"
    write_bytes(source, b"other")
    assert link.read_bytes() == b"content"
    copy_file(source, link, may_link=True)
    write_bytes(link, b"third")
    assert source.read_bytes() == b"other"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "link", "source"]


def test_a_file_is_linked_where_it_cannot_be_cloned(tmp_path: Path):
    source = tmp_path / "source"
    write_bytes(source, b"content")
    copy_file(source, tmp_path / "copy")
    copy_file(source, tmp_path / "link", may_link=True)
    copy_file(tmp_path / "link", tmp_path / "link", may_link=True)
    assert source.stat().st_ino != (tmp_path / "copy").stat().st_ino
    assert can_clone(tmp_path) or source.stat().st_ino == (tmp_path / "link").stat().st_ino


def test_a_file_with_another_mode_is_copied_and_keeps_its_mode(tmp_path: Path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    write_bytes(source, b"content")
    source.chmod(0o400)
    copy_file(source, copy, may_link=True)
    assert source.stat().st_mode & 0o777 == 0o400
    assert copy.stat().st_mode & 0o200
    assert copy.read_bytes() == b"content"


def can_clone(directory: Path) -> bool:
    """Whether a file system has files that share blocks."""
    (directory / "probe").write_bytes(b"x")
    command = ["cp", "--reflink=always", directory / "probe", directory / "clone"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
