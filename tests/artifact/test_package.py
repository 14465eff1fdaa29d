"""The package: fixed bytes, safe extraction, no trust without digests."""

import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvmake.artifact.manifest import Coverage, FileEntry, Manifest
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack, unpack
from tvmake.artifact.signature import Signature
from tvmake.artifact.weights.file_format import MAGIC
from tvmake.device import store
from tvmake.errors import InputError
from tvmake.provenance.statement import statement
from tvmake.storage.files import digest_bytes, digest_file

NO_WEIGHTS = struct.pack("<QQQQ", MAGIC, 0, 0, 0)
CONTENT = {LIBRARY: b"library" + bytes(range(256)) * 40, WEIGHTS: NO_WEIGHTS + b"weights" * 100}


def manifest_of(content: dict[str, bytes]) -> Manifest:
    files = {name: FileEntry(sha256=digest_bytes(data), size=len(data)) for name, data in content.items()}
    return Manifest(
        model="m",
        precision="float32",
        target_name="cpu",
        network={},
        signature=Signature(inputs=(), outputs=()),
        parameters=[],
        target={},
        build={},
        libinfo={},
        coverage=Coverage(tuned=0, tunable=0, misses={}),
        kernels=[],
        graph=[],
        files=files,
        components=[],
        provenance=statement({}, files, {}, [], "0").model_dump(mode="json", exclude_none=True),
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    source = tmp_path / "built"
    source.mkdir()
    (source / MANIFEST).write_text(manifest_of(CONTENT).sealed().model_dump_json())
    for name, data in CONTENT.items():
        (source / name).write_bytes(data)
    return {name: source / name for name in (LIBRARY, MANIFEST, WEIGHTS)}


@pytest.fixture
def package(files: dict[str, Path], tmp_path: Path) -> Path:
    destination = tmp_path / "package.tar"
    pack(files, destination)
    return destination


def extracted(package: Path, tmp_path: Path) -> Path:
    directory = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
    directory.mkdir()
    unpack(package, directory)
    return directory


def test_a_package_comes_out_as_it_went_in(package: Path, tmp_path: Path):
    directory = extracted(package, tmp_path)
    assert {name: (directory / name).read_bytes() for name in CONTENT} == CONTENT


def test_packing_twice_gives_the_same_bytes_whatever_the_files_times_and_modes(
    files: dict[str, Path], package: Path, tmp_path: Path
):
    for file in files.values():
        file.chmod(0o600)
        file.touch()
    pack(dict(reversed(files.items())), tmp_path / "again.tar")
    assert digest_file(tmp_path / "again.tar") == digest_file(package)


def test_files_that_differ_from_the_manifest_are_not_packed(files: dict[str, Path], tmp_path: Path):
    files[WEIGHTS].write_bytes(b"other")
    with pytest.raises(InputError, match="truncated"):
        pack(files, tmp_path / "never.tar")
    assert not (tmp_path / "never.tar").exists()


def repacked(
    package: Path,
    change: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None],
    extra: list[tuple[tarfile.TarInfo, bytes]] = (),
) -> None:
    with tarfile.open(package) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive]
    with tarfile.open(package, "w", format=tarfile.USTAR_FORMAT) as archive:
        for member, data in [*filter(None, (change(*item) for item in members)), *extra]:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data))


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "unsafe",
    [
        member("../escape"),
        member("/absolute"),
        member("sub/file"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("hard", tarfile.LNKTYPE, LIBRARY),
        member("pipe", tarfile.FIFOTYPE),
        member("dir", tarfile.DIRTYPE),
        member(LIBRARY),
    ],
    ids=lambda info: f"{info.name}-{info.type.decode()}",
)
def test_unsafe_members_are_refused_and_nothing_leaves_the_directory(
    package: Path, tmp_path: Path, unsafe: tarfile.TarInfo
):
    repacked(package, lambda info, data: (info, data), [(unsafe, b"x")])
    before = set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"unsafe member|appears twice"):
        extracted(package, tmp_path)
    outside = {path for path in set(tmp_path.rglob("*")) - before if "out-" not in str(path)}
    assert outside == set()


def test_an_altered_library_is_refused(package: Path, tmp_path: Path):
    repacked(package, lambda info, data: (info, data[:-1] + b"!" if info.name == LIBRARY else data))
    with pytest.raises(InputError, match=r"mod\.so is altered"):
        extracted(package, tmp_path)


def test_a_file_the_manifest_does_not_name_is_refused(package: Path, tmp_path: Path):
    repacked(package, lambda info, data: (info, data), [(member("extra.so"), b"x")])
    with pytest.raises(InputError, match="not in its manifest"):
        extracted(package, tmp_path)


@pytest.mark.parametrize("name", [LIBRARY, MANIFEST, WEIGHTS])
def test_a_missing_member_is_refused(package: Path, tmp_path: Path, name: str):
    repacked(package, lambda info, data: None if info.name == name else (info, data))
    with pytest.raises(InputError, match="missing"):
        extracted(package, tmp_path)


def test_a_manifest_of_another_version_is_named(package: Path, tmp_path: Path):
    def older(info: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        return info, json.dumps({**json.loads(data), "schema_version": 7}).encode() if info.name == MANIFEST else data

    repacked(package, older)
    with pytest.raises(InputError, match="schema version 7, expected 2 to 6\n  use the tvmake that wrote it"):
        extracted(package, tmp_path)


def test_an_edited_manifest_is_refused(package: Path, tmp_path: Path):
    def edited(info: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        return info, data.replace(b'"precision":"float32"', b'"precision":"float16"') if info.name == MANIFEST else data

    repacked(package, edited)
    with pytest.raises(InputError, match=r"mod\.json is altered"):
        extracted(package, tmp_path)


@settings(max_examples=150)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_truncated_package_is_refused_wherever_it_ends(package: Path, tmp_path: Path, cut: float):
    data = package.read_bytes()
    # The archive's end is padding: cuts there lose nothing.
    content_end = max(i for i, byte in enumerate(data) if byte) + 1
    shorter = tmp_path / "cut.tar"
    shorter.write_bytes(data[: int(content_end * cut)])
    with pytest.raises(InputError):
        extracted(shorter, tmp_path)


@settings(max_examples=150)
@given(position=st.integers(0), flip=st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_changes_nothing(package: Path, tmp_path: Path, position: int, flip: int):
    data = bytearray(package.read_bytes())
    data[position % len(data)] ^= flip
    altered = tmp_path / "flipped.tar"
    altered.write_bytes(data)
    try:
        directory = extracted(altered, tmp_path)
    except InputError:
        return
    assert {name: (directory / name).read_bytes() for name in CONTENT} == CONTENT


def test_garbage_and_directories_are_refused(tmp_path: Path):
    (tmp_path / "garbage.tar").write_bytes(b"not a tar" * 1000)
    for bad in (tmp_path / "garbage.tar", tmp_path, tmp_path / "absent.tar"):
        with pytest.raises(InputError):
            extracted(bad, tmp_path)


def test_the_store_unpacks_once_and_replaces_a_copy_someone_touched(package: Path, tmp_path: Path):
    root = tmp_path / "store"
    directory = store.put(package, root)
    assert directory.name == digest_file(package)
    stamp = (directory / LIBRARY).stat().st_mtime_ns
    assert store.put(package, root) == directory
    assert (directory / LIBRARY).stat().st_mtime_ns == stamp
    (directory / LIBRARY).write_bytes(b"tampered")
    store.put(package, root)
    assert (directory / LIBRARY).read_bytes() == CONTENT[LIBRARY]
    assert [path.name for path in root.iterdir()] == [directory.name]
