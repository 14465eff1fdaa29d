"""Packages with several functions: what is read of them, and damaged, foreign and hostile ones."""

import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.artifact.test_package import extracted, manifest_of, member, repacked
from tvmake.artifact.functions import FunctionEntry, FunctionsManifest
from tvmake.artifact.manifest import FileEntry, Manifest, Parameter
from tvmake.artifact.package import LIBRARY, MANIFEST, SELF_TEST, WEIGHTS, inspect, inspect_any, is_package, pack
from tvmake.artifact.weights.file_format import TensorForm, write_tensors
from tvmake.device import store
from tvmake.errors import InputError
from tvmake.provenance.statement import with_files
from tvmake.storage.files import digest_bytes, digest_file

Change = Callable[[dict[str, bytes]], Any]
"""Changes the files of a package, without its mod.json."""

FLOAT = struct.pack("<4f", 1, 2, 3, 4)


def weights(names: str) -> bytes:
    from io import BytesIO

    file = BytesIO()
    write_tensors([TensorForm(name, (4,), (2, 32, 1)) for name in names], [FLOAT] * len(names), file)
    return file.getvalue()


def function(library: bytes, *parameters: str, self_test: bytes | None = None, kind: str = "llvm") -> Manifest:
    content = {LIBRARY: library, WEIGHTS: b"its own", **({SELF_TEST: self_test} if self_test else {})}
    described = [Parameter(name=name, shape=(4,), dtype="float32") for name in parameters]
    manifest = manifest_of(content).model_copy(update={"parameters": described, "target": {"kind": kind}})
    return with_files(manifest, {}).sealed()


FILES = {
    WEIGHTS: weights("ab"),
    f"encode/{LIBRARY}": b"encode",
    f"encode/{MANIFEST}": function(b"encode", "w").model_dump_json().encode(),
    f"decode/{LIBRARY}": b"decode",
    f"decode/{MANIFEST}": function(b"decode", "v", "w", self_test=b"samples").model_dump_json().encode(),
    f"decode/{SELF_TEST}": b"samples",
}

FUNCTIONS = (FunctionEntry(name="encode", weights=("a",)), FunctionEntry(name="decode", weights=("b", "a")))


def write(
    directory: Path, files: dict[str, bytes], functions: tuple[FunctionEntry, ...] = FUNCTIONS, **changes: Any
) -> Path:
    """A package with these files, which its manifest lists."""
    entries = {name: FileEntry(sha256=digest_bytes(data), size=len(data)) for name, data in files.items()}
    manifest = FunctionsManifest(
        model="speech", precision="float32", target_name="cpu", functions=functions, files=entries
    )
    paths = {}
    for name, data in {
        **files,
        MANIFEST: manifest.model_copy(update=changes).sealed().model_dump_json().encode(),
    }.items():
        paths[name] = directory / "built" / name
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_bytes(data)
    pack(paths, directory / "package.tar")
    return directory / "package.tar"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


def test_a_package_comes_out_as_it_went_in(package: Path, tmp_path: Path):
    directory = extracted(package, tmp_path)
    assert {name: (directory / name).read_bytes() for name in FILES} == FILES
    manifest = inspect_any(package)
    assert isinstance(manifest, FunctionsManifest) and manifest.functions == FUNCTIONS
    assert is_package(package)


def test_a_package_with_functions_is_not_one_network(package: Path, tmp_path: Path):
    for use in (inspect, lambda file: store.put(file, tmp_path / "store")):
        with pytest.raises(InputError) as refused:
            use(package)
        assert refused.value.problem == "has several functions (encode, decode), and one network is needed here"
        assert refused.value.remedy == f"`tvmake run {package} --function encode` runs one of them"


@pytest.mark.parametrize(
    "foreign",
    [
        member("../escape"),
        member("/absolute"),
        member("encode/../../escape"),
        member("encode/sub/file"),
        member("encode/more.so"),
        member("other/mod.so"),
        member("extra.so"),
        member("encode/link", tarfile.SYMTYPE, "/etc/passwd"),
        member(f"encode/{SELF_TEST}", tarfile.LNKTYPE, WEIGHTS),
        member("encode", tarfile.DIRTYPE),
        member(f"encode/{LIBRARY}"),
    ],
    ids=lambda info: f"{info.name}-{info.type.decode()}",
)
def test_members_that_the_manifest_does_not_list_are_refused_before_anything_is_written(
    package: Path, tmp_path: Path, foreign: tarfile.TarInfo
):
    repacked(package, lambda info, data: (info, data), [(foreign, b"x")])
    before = set(tmp_path.rglob("*"))
    for use in (lambda: extracted(package, tmp_path), lambda: inspect_any(package)):
        with pytest.raises(InputError, match=r"unsafe member|appears twice|not in its manifest"):
            use()
    assert not {path for path in set(tmp_path.rglob("*")) - before if "out-" not in str(path)}


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_missing_or_altered_file_is_refused(tmp_path: Path, name: str):
    for change in (lambda data: None, lambda data: data[:-1], lambda data: data[:-1] + b"!"):
        package = write(tmp_path, FILES)
        repacked(
            package,
            lambda info, data, change=change: (
                (info, data) if info.name != name else (info, change(data)) if change(data) is not None else None
            ),
        )
        for use in (lambda package=package: extracted(package, tmp_path), lambda package=package: inspect_any(package)):
            with pytest.raises(InputError, match=f"{name}.* (missing|truncated|altered|damaged|bytes)|missing"):
                use()


def replaced(**files: bytes) -> dict[str, bytes]:
    return FILES | {name.replace("__", "/").replace("_", "."): data for name, data in files.items()}


@pytest.mark.parametrize(
    ("files", "functions", "problem"),
    [
        (
            {name: data for name, data in FILES.items() if "decode" not in name},
            FUNCTIONS,
            "does not list decode/mod.json",
        ),
        ({**FILES, "decode/more.so": b""}, FUNCTIONS, r"lists 'decode/more\.so', which is not a file of a function"),
        ({**FILES, "mod.so": b""}, FUNCTIONS, r"lists 'mod\.so', which is not a file of a function"),
        (FILES, FUNCTIONS[:1], r"lists 'decode/mod\.json', which is not a file of a function"),
        (FILES, (*FUNCTIONS, FUNCTIONS[0]), "has the function 'encode' twice"),
        (
            replaced(decode__mod_json=function(b"other", "v", "w", self_test=b"samples").model_dump_json().encode()),
            FUNCTIONS,
            "decode/mod.json belongs to another mod.so",
        ),
        (
            replaced(decode__mod_json=function(b"decode", "v", "w").model_dump_json().encode()),
            FUNCTIONS,
            "decode/mod.json belongs to another self_test.npz",
        ),
        (
            replaced(decode__mod_json=function(b"decode", "v", self_test=b"samples").model_dump_json().encode()),
            FUNCTIONS,
            "has 2 weights for the 1 parameters of 'decode'",
        ),
        (replaced(decode__mod_json=b"{}"), FUNCTIONS, "decode: mod.json is damaged"),
        (
            replaced(decode__mod_json=FILES[f"decode/{MANIFEST}"].replace(b'"float32"', b'"float16"')),
            FUNCTIONS,
            "decode: mod.json is altered: its content differs from its own digest",
        ),
    ],
)
def test_manifests_that_contradict_the_package_are_refused(
    tmp_path: Path, files: dict[str, bytes], functions: tuple[FunctionEntry, ...], problem: str
):
    for use in (inspect_any, lambda package: extracted(package, tmp_path)):
        with pytest.raises(InputError, match=problem):
            use(write(tmp_path, files, functions))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (replaced(mod_params=weights("a")), "mod.params lacks 'b', a weight of 'decode'"),
        (replaced(mod_params=b"no weights"), "mod.params is damaged"),
        (
            replaced(encode__mod_json=function(b"encode", "w", kind="opencl").model_dump_json().encode()),
            "its functions are for several kinds of devices",
        ),
        (
            replaced(
                encode__mod_json=function(b"encode", "w")
                .model_copy(update={"parameters": [Parameter(name="w", shape=(2, 2), dtype="float32")]})
                .sealed()
                .model_dump_json()
                .encode()
            ),
            "'a' of mod.params has another shape than 'w' of 'encode'",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_anything_runs(
    tmp_path: Path, files: dict[str, bytes], problem: str
):
    with pytest.raises(InputError, match=problem):
        store.put_any(write(tmp_path, files), tmp_path / "store")


@settings(max_examples=100)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_truncated_package_is_refused_wherever_it_ends(package: Path, tmp_path: Path, cut: float):
    data = package.read_bytes()
    content_end = max(index for index, byte in enumerate(data) if byte) + 1
    shorter = tmp_path / "cut.tar"
    shorter.write_bytes(data[: int(content_end * cut)])
    with pytest.raises(InputError):
        extracted(shorter, tmp_path)


@settings(max_examples=100)
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
    assert {name: (directory / name).read_bytes() for name in FILES} == FILES


def test_the_store_unpacks_once_and_replaces_a_copy_someone_touched(package: Path, tmp_path: Path):
    root = tmp_path / "store"
    directory, _ = store.put_any(package, root)
    assert directory.name == digest_file(package)
    library = directory / "decode" / LIBRARY
    stamp = library.stat().st_mtime_ns
    assert store.put_any(package, root)[0] == directory
    assert library.stat().st_mtime_ns == stamp
    for damage in (
        lambda: library.write_bytes(b"tampered"),
        lambda: (library.unlink(), library.symlink_to(directory / "encode" / LIBRARY)),
        lambda: (directory / "decode" / "more.so").write_bytes(b""),
        lambda: (directory / "decode").chmod(0o777),
    ):
        damage()
        with pytest.raises(InputError):
            store.read_any_stored_manifest(directory)
        store.put_any(package, root)
        assert {path.name for path in (directory / "decode").iterdir()} == {LIBRARY, MANIFEST, SELF_TEST}
        assert library.read_bytes() == b"decode" and not library.is_symlink()
