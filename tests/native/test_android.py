"""Programs for Android: with an NDK, without one, and what their imports may be."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.requirements import need
from tvmake.artifact.elf import read_library
from tvmake.errors import MachineError, UsageError
from tvmake.native import ndk
from tvmake.native.bionic import check_imports, levels
from tvmake.native.bundle import CONTENTS, bundle, has_built_in_opencl, parse_triple


@pytest.fixture(autouse=True)
def no_ndk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ndk.VARIABLES, *ndk.SDK_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "tvmake"))


def an_ndk(root: Path, version: str, *levels: int) -> Path:
    """A directory laid out like an NDK, with compilers for 64-bit Arm."""
    tools = root / "toolchains/llvm/prebuilt/linux-x86_64/bin"
    tools.mkdir(parents=True)
    (root / "source.properties").write_text(f"Pkg.Desc = Android NDK\nPkg.Revision = {version}\n")
    for level in levels:
        (tools / f"aarch64-linux-android{level}-clang++").touch(0o755)
    return root


# --- where the NDK is ---------------------------------------------------------------------------------------------------


def test_a_variable_names_the_ndk_before_android_studio_does(tmp_path: Path):
    sdk = tmp_path / "home/Android/Sdk"
    for version in ("25.1.8937393", "9.0.1", "27.0.12077973"):
        an_ndk(sdk / "ndk" / version, version, 24)
    environment = {"HOME": str(tmp_path / "home")}
    assert ndk.find_ndk(environment) == (sdk / "ndk/27.0.12077973", "Android Studio")
    assert ndk.find_ndk({**environment, "ANDROID_NDK_ROOT": "/opt/ndk"}) == (Path("/opt/ndk"), "ANDROID_NDK_ROOT")
    other = an_ndk(tmp_path / "sdk/ndk/26.1.1", "26.1.1", 24)
    assert ndk.find_ndk({**environment, "ANDROID_HOME": str(tmp_path / "sdk")}) == (other, "ANDROID_HOME")
    assert ndk.find_ndk({"HOME": str(tmp_path / "nobody")}) is None


@pytest.mark.parametrize(
    ("version", "levels", "api", "problem"),
    [
        ("21.4.7075529", (24,), None, "is r21.4.7075529; the oldest supported revision is r25"),
        ("27.0.1", (), None, "it has no compiler for aarch64"),
        ("27.0.1", (24, 30), 33, "cannot compile for Android API 33: its levels end at 30"),
    ],
)
def test_an_ndk_that_will_not_do_is_named(tmp_path: Path, monkeypatch, version: str, levels, api, problem: str):
    monkeypatch.setenv("ANDROID_NDK_HOME", str(an_ndk(tmp_path / "ndk", version, *levels)))
    with pytest.raises(MachineError) as caught:
        ndk.toolchain("aarch64", api)
    assert problem in caught.value.problem and f"ANDROID_NDK_HOME={tmp_path / 'ndk'}" in caught.value.problem


def test_gpu_programs_without_an_ndk_say_where_to_get_it():
    with pytest.raises(MachineError) as caught:
        bundle("aarch64", "android", with_opencl=True)
    assert caught.value.where == "programs for android on aarch64" and "no NDK was found" in caught.value.problem
    assert "developer.android.com/ndk" in str(caught.value.remedy)
    with pytest.raises(MachineError, match="no Android NDK was found"):
        ndk.toolchain("aarch64")


def test_a_directory_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANDROID_NDK_HOME", "/nowhere")
    with pytest.raises(MachineError, match="ANDROID_NDK_HOME=/nowhere is not a directory"):
        ndk.toolchain("aarch64")


# --- triples ------------------------------------------------------------------------------------------------------------


def test_a_triple_names_a_system_and_a_level():
    target = parse_triple("aarch64-linux-android28")
    assert (target.machine, target.system, target.api, target.with_opencl) == ("aarch64", "android", 28, False)
    assert parse_triple("x86_64-unknown-linux-musl").system == "musl"
    assert parse_triple("aarch64-linux-gnu", None).system == "linux"


@pytest.mark.parametrize("triple", ["aarch64-apple-darwin", "aarch64-linux-gnu24", "aarch64-linux", "-linux-android"])
def test_other_triples_are_one_clear_error(triple: str):
    with pytest.raises(UsageError, match="is not a supported system"):
        parse_triple(triple)


# --- imports ------------------------------------------------------------------------------------------------------------


def library(directory: Path, *names: str, libraries: tuple[str, ...] = ("libc.so",)) -> Path:
    """A library that imports names, and is linked with stand-ins of Android's libraries."""
    need("g++")
    stand_ins = []
    for soname in libraries:
        command = ["gcc", "-shared", "-nostdlib", "-o", soname, f"-Wl,-soname,{soname}", "-x", "c", "/dev/null"]
        subprocess.run(command, cwd=directory, check=True)
        stand_ins.append(soname)
    calls = (
        "".join(f"void {name}(void); " for name in names) + "void f(void) { " + "".join(f"{n}(); " for n in names) + "}"
    )
    (directory / "f.c").write_text(calls)
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-fno-builtin",
        "-nostdlib",
        "-Wl,--no-as-needed",
        "-o",
        "f.so",
        "f.c",
        *stand_ins,
    ]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "f.so"


def test_imports_of_the_level_pass(tmp_path: Path):
    file = library(tmp_path, "getauxval", "fopen64", "__errno", "dlopen", "expf", libraries=("libc.so", "libm.so"))
    assert set(read_library(file).imports) == {"getauxval", "fopen64", "__errno", "dlopen", "expf"}
    check_imports(file, 24, "here")


@pytest.mark.parametrize(
    ("names", "api", "problem"),
    [
        (("getrandom", "malloc"), 24, r"imports names that Android API 24 lacks: getrandom \(API 28\)"),
        (("fopen64",), 23, r"fopen64 \(API 24\)"),
        (("__libc_start_main", "abort"), 24, "names that are not in tvmake's list of Android's: __libc_start_main"),
    ],
)
def test_later_and_unknown_imports_are_named(tmp_path: Path, names, api: int, problem: str):
    with pytest.raises(MachineError, match=problem):
        check_imports(library(tmp_path, *names), api, "here")


def test_another_library_is_named(tmp_path: Path):
    with pytest.raises(MachineError, match=r"f.so needs libc\+\+_shared.so, which is not part"):
        check_imports(library(tmp_path, "abort", libraries=("libc.so", "libc++_shared.so")), 24, "here")


def test_every_name_has_one_level():
    known = levels()
    assert {known["memcpy"], known["stderr"], known["getifaddrs"], known["strtod_l"], known["statx"]} == {
        21,
        23,
        24,
        26,
        30,
    }


def test_a_bundle_says_when_opencl_is_built_into_its_programs(tmp_path: Path):
    assert not has_built_in_opencl(tmp_path)
    (tmp_path / CONTENTS).write_text(json.dumps({"opencl": "built in"}))
    assert has_built_in_opencl(tmp_path)
