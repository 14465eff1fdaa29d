"""Which compiler driver links a target's library, and which libraries are refused before they reach a device."""

import platform
import subprocess
from pathlib import Path

import pytest

from tests.requirements import need, require
from tvmake.artifact.elf import read_library
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError, MachineError
from tvmake.native import ndk, zig
from tvmake.targets import toolchain
from tvmake.targets.resolve import check_library, linker
from tvmake.targets.toolchain import compiler_driver, driver_identity

HERE = f"{platform.machine()}-linux-gnu"
WHERE = "targets.t"


ZIG_CACHE = Path("~/.cache/zig").expanduser()
"""Zig's compiled runtime libraries, which are shared: each target's take seconds."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(ZIG_CACHE))
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    for name in (*ndk.VARIABLES, *ndk.SDK_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))


def program(file: Path, script: str) -> Path:
    """Put an executable on disk."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def library(directory: Path, source: str = "int f(int x) { return x; }", *options: str) -> Path:
    """A shared library of this machine's compiler."""
    (directory / "f.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "f.so", "f.c", *options], cwd=directory, check=True)
    return directory / "f.so"


def refusal(**target) -> MachineError:
    with pytest.raises(MachineError) as caught:
        compiler_driver(TargetConfig(**target), WHERE)
    return caught.value


# --- the choice ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [{}, {"mtriple": HERE}, {"kind": "cuda"}, {"toolchain": "system"}])
def test_this_machines_code_is_linked_by_the_systems_compiler(target):
    assert compiler_driver(TargetConfig(**target), WHERE) == "g++"


def test_another_linux_is_linked_by_the_cross_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain, "_check_driver", lambda *_: None)
    program(tmp_path / "riscv64-linux-gnu-g++", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert compiler_driver(TargetConfig(mtriple="riscv64-linux-gnu"), WHERE) == "riscv64-linux-gnu-g++"


@pytest.mark.parametrize("processor", ["aarch64", "i686"])
def test_a_missing_cross_compiler_names_its_package(tmp_path, monkeypatch, processor):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "zig_command", lambda: None)
    error = refusal(mtriple=f"{processor}-linux-gnu")
    assert f"'{processor}-linux-gnu-g++' is not installed" in error.problem
    assert f"apt-get install g++-{processor}-linux-gnu" in error.remedy


def test_a_compiler_that_debian_does_not_have_is_not_said_to_be_installed_from_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "zig_command", lambda: None)
    assert refusal(cc="nog++").remedy == (
        "name a compiler on PATH, or leave out `cc`, or set `toolchain: zig` (pip install 'tvmake[android]') instead of `cc`"
    )
    assert "apt-get" not in refusal(mtriple="msp430-none-elf", kind="c").remedy


@pytest.mark.parametrize("triple", ["x86_64-pc-windows-msvc", "x86_64-w64-mingw32", "arm64-apple-darwin"])
def test_a_triple_of_another_system_is_refused_before_anything_is_linked(triple):
    with pytest.raises(InputError, match=f"{WHERE}.mtriple: '{triple}' is for another system"):
        compiler_driver(TargetConfig(mtriple=triple), WHERE, is_tried=False)
    with pytest.raises(InputError, match=r"host.mtriple.*\n.*such as"):
        compiler_driver(TargetConfig(kind="opencl", host=triple), WHERE, is_tried=False)


def test_a_compiler_that_is_named_is_tried_where_nothing_else_is():
    with pytest.raises(MachineError, match="does not work") as caught:
        compiler_driver(TargetConfig(mtriple="aarch64-linux-gnu", cc="ls"), WHERE, is_tried=False)
    assert "name a C++ compiler" in caught.value.remedy


def test_android_is_linked_by_the_ndk_of_the_lowest_level_that_fits(tmp_path, monkeypatch):
    compilers = {
        level: program(
            tmp_path / f"toolchains/llvm/prebuilt/linux-x86_64/bin/{platform.machine()}-linux-android{level}-clang++",
            'exec g++ "$@"',
        )
        for level in (21, 26, 34)
    }
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path))
    triple = f"{platform.machine()}-linux-android"
    assert compiler_driver(TargetConfig(mtriple=triple), WHERE) == str(compilers[26])
    assert compiler_driver(TargetConfig(kind="opencl", host=triple, android_api=33), WHERE) == str(compilers[34])
    assert "its levels end at 34" in refusal(mtriple=triple, android_api=40).problem
    assert "no compiler for riscv64" in refusal(mtriple="riscv64-linux-android").problem


def test_android_without_an_ndk_says_where_to_get_it(monkeypatch):
    monkeypatch.setattr(toolchain, "zig_command", lambda: None)
    error = refusal(tag="adreno-730-texture", host="aarch64-linux-android")
    assert "ANDROID_NDK_HOME is not set" in error.problem and "developer.android.com/ndk" in error.remedy
    assert "pip install 'tvmake[android]'" in error.remedy


def test_android_without_an_ndk_is_linked_by_zig(tmp_path, monkeypatch):
    require(toolchain.zig_command(), "zig: pip install ziglang")
    driver = compiler_driver(TargetConfig(mtriple="aarch64-linux-android"), WHERE)
    (tmp_path / "f.c").write_text("#include <math.h>\nfloat f(float x) { return expf(x); }")
    subprocess.run([driver, "-shared", "-fPIC", "-o", "f.so", "f.c"], cwd=tmp_path, check=True)
    made = read_library(tmp_path / "f.so")
    assert (made.machine, set(made.needed), made.imports) == ("aarch64", {"libm.so", "libc.so"}, ("expf",))
    check_library(tmp_path / "f.so", TargetConfig(mtriple="aarch64-linux-android"), WHERE)


def test_zig_links_for_a_triple_and_a_glibc(tmp_path, monkeypatch):
    asked = tmp_path / "asked"
    program(tmp_path / "zig", f'echo "$1 $2 $3" >> {asked}; shift 3; exec gcc "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(zig.importlib.util, "find_spec", lambda name: None)
    target = TargetConfig(mtriple=HERE, toolchain="zig", glibc="2.28")
    driver = compiler_driver(target, WHERE)
    assert driver == compiler_driver(target, WHERE)
    assert set(asked.read_text().splitlines()) == {f"cc -target {HERE}.2.28"}
    assert driver_identity(driver)


def test_the_real_zig_links_for_an_older_glibc(tmp_path):
    require(toolchain.zig_command(), "zig: pip install ziglang")
    driver = compiler_driver(TargetConfig(mtriple="aarch64-linux-gnu", toolchain="zig", glibc="2.28"), WHERE)
    (tmp_path / "f.c").write_text("#include <math.h>\ndouble f(double x) { return exp(x); }\n")
    subprocess.run([driver, "-shared", "-fPIC", "-o", "f.so", "f.c"], cwd=tmp_path, check=True)
    made = read_library(tmp_path / "f.so")
    assert made.machine == "aarch64" and (made.glibc or (2, 0)) <= (2, 28)


def test_a_tag_of_tvms_that_implies_a_host_gets_its_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(toolchain, "zig_command", lambda: None)
    with pytest.raises(MachineError, match=r"aarch64-linux-gnu-g\+\+"):
        linker(TargetConfig(tag="nvidia/jetson-orin-nano"), WHERE)


# --- a compiler that does not fit ---------------------------------------------------------------------------------------


def test_a_compiler_for_another_processor_is_refused():
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    error = refusal(mtriple=f"{other}-linux-gnu", cc="g++")
    assert error.problem == f"the compiler 'g++' compiles for {platform.machine()}, the target is for {other}"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'cannot find crt1.o' >&2; exit 1", "does not work: cannot find crt1.o"),
        ("exit 3", "does not work: it ends with code 3"),
        ("exit 0", "does not work: it ends with code 0"),
        ('while test "$1" != -o; do shift; done; echo text > "$2"', "its output is not a shared library"),
    ],
)
def test_a_compiler_that_does_not_work_is_refused_with_its_own_words(script, problem, tmp_path):
    assert problem in refusal(cc=str(program(tmp_path / "cc", script))).problem


# --- a library that does not fit ----------------------------------------------------------------------------------------


def test_a_library_tells_its_processor_and_its_glibc(tmp_path):
    made = read_library(library(tmp_path, '#include <stdio.h>\nint f(int x) { return printf("%d", x); }'))
    assert made.machine == platform.machine()
    assert made.glibc is not None and "libc.so.6" in made.needed and made.android_api is None


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF" + bytes(40), b"\x7fELF\x02\x01" + b"\xff" * 100])
def test_a_file_that_is_not_a_library_is_reported(content, tmp_path):
    (tmp_path / "f.so").write_bytes(content)
    with pytest.raises(ValueError, match="ELF"):
        read_library(tmp_path / "f.so")


def test_a_library_that_needs_a_newer_glibc_is_refused(tmp_path):
    made = library(tmp_path, '#include <stdio.h>\nint f(int x) { return printf("%d", x); }')
    needed = read_library(made).glibc
    check_library(made, TargetConfig(mtriple=HERE, glibc="2.99"), WHERE)
    with pytest.raises(MachineError, match=rf"needs glibc 2\.{needed[1]}, the device may have 2\.1\n"):
        check_library(made, TargetConfig(mtriple=HERE, glibc="2.1"), WHERE)


def test_a_library_for_another_processor_or_system_is_refused(tmp_path):
    made = library(tmp_path, '#include <stdio.h>\nint f(int x) { return printf("%d", x); }')
    with pytest.raises(MachineError, match="made a library for"):
        check_library(made, TargetConfig(mtriple="riscv64-linux-gnu"), WHERE)
    with pytest.raises(MachineError, match="Android has none"):
        check_library(made, TargetConfig(mtriple=f"{platform.machine()}-linux-android"), WHERE)


def test_an_android_note_tells_the_level(tmp_path):
    note = """
    __asm__(".section .note.android.ident,\\"a\\",%note\\n.long 8\\n.long 4\\n.long 1\\n"
            ".asciz \\"Android\\"\\n.long 30\\n.previous");
    int f(int x) { return x; }
    """
    made = library(tmp_path, note, "-nostdlib")
    assert read_library(made).android_api == 30
    target = TargetConfig(mtriple=f"{platform.machine()}-linux-android", android_api=26)
    with pytest.raises(MachineError, match="linked for Android API 30, the device may have 26"):
        check_library(made, target, WHERE)


def test_debians_cross_compiler_fits_arm(tmp_path):
    need("aarch64-linux-gnu-g++")
    assert compiler_driver(TargetConfig(tag="cortex-a76-linux"), WHERE) == "aarch64-linux-gnu-g++"
