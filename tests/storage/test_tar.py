"""Archives of plain files: what tarfile reads the same, and everything else refused."""

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvmake.errors import InputError
from tvmake.storage import tar as plain_tar
from tvmake.storage.tar import read_tar, write_tar

CONTENT = {"a.json": b"{}", "b/c.so": bytes(range(256)) * 5, "b/empty": b"", "b/" + "n" * 90 + "/" + "m" * 60: b"long"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    files = {}
    for number, (name, data) in enumerate(CONTENT.items()):
        files[name] = tmp_path / str(number)
        files[name].write_bytes(data)
    write_tar(files, tmp_path / "made.tar")
    return tmp_path / "made.tar"


def read(archive: Path, nested: bool = True) -> dict[str, bytes]:
    return {member.name: member.read(1 << 30) for member in read_tar(archive, "archive", "", nested=nested)}


def test_what_is_written_is_read_here_and_by_tarfile(archive: Path):
    assert read(archive) == CONTENT
    with tarfile.open(archive) as other:
        assert {member.name: other.extractfile(member).read() for member in other} == CONTENT


def test_members_that_are_not_read_are_passed_over(archive: Path):
    assert [member.name for member in read_tar(archive, "archive", "", nested=True)] == sorted(CONTENT)


def written(path: Path, info: tarfile.TarInfo, data: bytes = b"", form: int = tarfile.USTAR_FORMAT) -> Path:
    info.size = len(data) if info.size == 0 else info.size
    with tarfile.open(path, "w", format=form) as archive:
        archive.addfile(info, io.BytesIO(data))
    return path


def named(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


@pytest.mark.parametrize(
    "name", ["../up", "a/../../up", "/abs", "a//b", "./a", "a/.", "a\\b", "a\nb", "bad\x1b[2J", "sub/file"]
)
def test_names_that_leave_the_directory_or_hide_are_refused(tmp_path: Path, name: str):
    with pytest.raises(InputError, match="unsafe member"):
        read(written(tmp_path / "bad.tar", named(name), b"x"), nested=name != "sub/file")


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.DIRTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CONTTYPE,
        tarfile.GNUTYPE_SPARSE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
    ],
)
def test_whatever_is_no_plain_file_is_refused(tmp_path: Path, kind: bytes):
    header = named("x", type=kind, linkname="/etc/passwd").tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "bad.tar").write_bytes(header + bytes(1024))
    with pytest.raises(InputError, match="only plain files"):
        read(tmp_path / "bad.tar")


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_extended_headers_cannot_rename_a_member(tmp_path: Path, form: int):
    with pytest.raises(InputError):
        read(written(tmp_path / "bad.tar", named("l" * 300), b"x", form))


def test_a_size_that_is_negative_or_huge_is_refused_or_found_truncated(tmp_path: Path):
    for size in (b"\xff" * 12, b"\x80" + b"\x7f" * 11, b"-0000000001\0", b"           \0"):
        header = bytearray(named("x").tobuf(tarfile.USTAR_FORMAT))
        header[124:136] = size
        header[148:156] = b"        "
        header[148:156] = b"%06o\0 " % sum(header)
        (tmp_path / "bad.tar").write_bytes(bytes(header) + bytes(1024))
        with pytest.raises(InputError, match=r"truncated|is altered"):
            read(tmp_path / "bad.tar")


def test_a_name_twice_is_refused(tmp_path: Path):
    with tarfile.open(tmp_path / "twice.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(named("a"))
        archive.addfile(named("a"))
    with pytest.raises(InputError, match="appears twice"):
        read(tmp_path / "twice.tar")


def test_a_compressed_archive_is_refused(tmp_path: Path):
    with tarfile.open(tmp_path / "bomb.tar", "w:gz") as archive:
        archive.addfile(named("zeros", size=1 << 20), io.BytesIO(bytes(1 << 20)))
    with pytest.raises(InputError, match=r"is compressed.*\n  decompress it: gunzip < bomb\.tar"):
        read(tmp_path / "bomb.tar")


def test_an_endless_number_of_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plain_tar, "MOST_MEMBERS", 10)
    with tarfile.open(tmp_path / "many.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(11):
            archive.addfile(named(str(number)))
    with pytest.raises(InputError, match="more than 10 members"):
        read(tmp_path / "many.tar")


def test_a_name_too_long_for_the_format_is_reported_when_it_is_written(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(InputError, match="does not fit into a tar archive"):
        write_tar({"n" * 300: tmp_path / "file"}, tmp_path / "never.tar")
    assert not (tmp_path / "never.tar").exists()


@settings(max_examples=200)
@given(st.data())
def test_damage_is_refused_or_changes_nothing(archive: Path, tmp_path: Path, data: st.DataObject):
    content = bytearray(archive.read_bytes())
    headers = 512 * 12  # where headers are; content has no digest of its own here
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, headers))] ^= data.draw(st.integers(1, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    (tmp_path / "damaged.tar").write_bytes(content)
    try:
        found = read(tmp_path / "damaged.tar")
    except InputError:
        return
    assert set(found) <= set(CONTENT) | {name for name in found if ".." not in name.split("/")}
    assert all(not name.startswith("/") for name in found)


def test_members_of_8_gib_have_headers_that_are_read_here_and_by_tarfile():
    header = plain_tar._header(plain_tar._member("large", 9 << 30))
    member = plain_tar._next(io.BytesIO(header), Path("a.tar"), "package", "again")
    assert member is not None
    assert (member.name, member.size) == ("large", 9 << 30)
    assert tarfile.TarInfo.frombuf(header, "utf-8", "strict").size == 9 << 30
