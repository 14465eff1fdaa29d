"""What loads a package's code in a program without a dynamic loader, tried on this machine."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.requirements import need
from tvmake.native.parts import package
from tvmake.storage.resources import native_sources

LOADER = native_sources() / "loader"

MAIN = """
#include <cstdio>
#include "image.h"
int main(int, char** arguments) {
  try {
    tvmake::Image image(arguments[1]);
    if (auto* f = reinterpret_cast<double (*)(double)>(image.Find("f"))) std::printf("%g\\n", f(2));
    else std::printf("no f\\n");
  } catch (const tvmake::LoadError& error) {
    std::printf("%s\\n", error.what());
  }
}
"""


def functions() -> list[str]:
    """The names that a program holds for generated code."""
    return re.findall(r"\bF\((\w+)\)", (LOADER / "functions.cc").read_text().partition("F)")[2])


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that loads the library it is given, and prints what its ``f`` makes of 2."""
    need("g++")
    directory = tmp_path_factory.mktemp("loader")
    (directory / "main.cc").write_text(MAIN)
    libraries = [package("tvm") / "lib/libtvm_runtime.so", package("tvm_ffi") / "lib/libtvm_ffi.so"]
    command = ["g++", "-std=c++17", f"-I{LOADER}", directory / "main.cc", LOADER / "image.cc", LOADER / "functions.cc"]
    command += [*libraries, *(f"-Wl,-rpath,{file.parent}" for file in libraries), "-o", directory / "load"]
    subprocess.run(command, check=True)
    return directory / "load"


def library(directory: Path, source: str, *options: str) -> Path:
    (directory / "f.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", "f.so", "f.c", *options], cwd=directory, check=True)
    return directory / "f.so"


def load(loader: Path, file: Path) -> str:
    return subprocess.run([loader, file], capture_output=True, text=True, timeout=HANG_S, check=True).stdout.strip()


PLAIN = "#include <math.h>\nstatic double k = 3; double f(double x) { return k * exp2(x); }"

INITIALISED = """
#include <string.h>
static char zeros[100000]; static double sum; static double* place = &sum; double* shown = &sum;
__attribute__((constructor)) static void begin(void) { sum = 5; }
double f(double x) { char copy[100]; memcpy(copy, zeros + 99000, 100); return *place + *shown + x + copy[50]; }
"""


@pytest.mark.parametrize("options", [(), ("-Wl,-z,now",), ("-Wl,-z,lazy", "-lm"), ("-Wl,--hash-style=sysv",)])
def test_code_calls_what_the_program_holds_whatever_it_was_linked_with(loader: Path, tmp_path: Path, options):
    assert load(loader, library(tmp_path, PLAIN, *options)) == "12"


@pytest.mark.parametrize("options", [(), ("-Wl,-z,pack-relative-relocs",), ("-Wl,-z,max-page-size=65536",)])
def test_data_is_zeroed_relocated_and_initialised(loader: Path, tmp_path: Path, options):
    assert load(loader, library(tmp_path, INITIALISED, *options)) == "12"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("void absent(void); double f(double x) { absent(); return x; }", "undefined symbol: absent"),
        ("__thread double k = 1; double f(double x) { return k += x; }", "it has thread-local variables"),
        ("double g(double x) { return x; }", "no f"),
    ],
)
def test_what_it_cannot_give_is_named(loader: Path, tmp_path: Path, source: str, problem: str):
    assert load(loader, library(tmp_path, source)).startswith(problem)


def test_weak_functions_that_are_nowhere_are_null(loader: Path, tmp_path: Path):
    source = "__attribute__((weak)) void absent(void); double f(double x) { return absent ? 0 : x + 1; }"
    assert load(loader, library(tmp_path, source)) == "3"


def test_damaged_and_foreign_files_are_refused_without_a_crash(loader: Path, tmp_path: Path):
    whole = library(tmp_path, PLAIN).read_bytes()
    damaged = tmp_path / "damaged.so"
    for size in (0, 3, 40, 64, 200, len(whole) // 2):
        damaged.write_bytes(whole[:size])
        assert load(loader, damaged).startswith("it ")
    damaged.write_bytes(whole[:18] + (40).to_bytes(2, "little") + whole[20:])
    assert load(loader, damaged) == "it is for another processor"
    damaged.write_bytes(b"#!/bin/sh\n" + whole)
    assert load(loader, damaged) == "it is not an ELF file"
    assert load(loader, tmp_path / "nowhere.so") == "No such file or directory"


def test_the_program_holds_all_of_tvms_c_interface():
    offered = set()
    for file in (package("tvm_ffi") / "lib/libtvm_ffi.so", package("tvm") / "lib/libtvm_runtime.so"):
        listed = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
        offered |= set(re.findall(r" T (TVM(?:FFI|Backend)\w+)$", listed, re.MULTILINE))
    names = functions()
    assert len(offered) > 50 and {name for name in names if name.startswith("TVM")} == offered
    assert names == sorted(names)
