"""Programs for Android: with an NDK, without one, and what their imports may be."""

import json
from pathlib import Path

import pytest

from tvmake.errors import MachineError, UsageError
from tvmake.native import ndk
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


# --- bundles ----------------------------------------------------------------------------------------------------------


def test_a_bundle_says_when_opencl_is_built_into_its_programs(tmp_path: Path):
    assert not has_built_in_opencl(tmp_path)
    (tmp_path / CONTENTS).write_text(json.dumps({"opencl": "built in"}))
    assert has_built_in_opencl(tmp_path)
