"""Compiled programs are kept on disk: taken from there, never trusted blindly, and no hindrance where they cannot be."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native.opencl_device import loaded
from tests.native.opencl_forked import run_forked

MAGIC = b"tvmake opencl program 1\n"

RUN = """
import sys, numpy as np
from tests.native.opencl_device import kernels, loaded
tvm = loaded()
for added in sys.argv[1].split(","):
    source = f"// Function: add\\nkernel void add(global float* a) {{ a[get_global_id(0)] += {added}.0f; }}\\n"
    a = tvm.runtime.tensor(np.zeros(8, "float32"), tvm.opencl(0))
    kernels(source, add=(["handle"], ["blockIdx.x"]))["add"](a, 8)
    print(int(a.numpy()[0]))
"""
"""Runs a kernel for each number given, which it adds to zero; prints what it got."""


@pytest.fixture
def run(tmp_path: Path):
    loaded()  # the library is built where it is kept, before TVMAKE_HOME points elsewhere
    home = tmp_path / "home"
    home.mkdir()
    (home / "native").symlink_to(native_root())

    def run(*added: int, **environment: str) -> list[int]:
        own = {
            "TVMAKE_HOME": str(home),
            "POCL_CACHE_DIR": str(tmp_path / "pocl"),
            **environment,
        }
        (tmp_path / "pocl").mkdir(exist_ok=True)
        return [int(line) for line in run_forked(RUN, ",".join(map(str, added)), **own).split()]

    return run


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "home" / "opencl"


def native_root() -> Path:
    from tvmake.native.parts import root

    return root()


def entries(cache: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in cache.iterdir()} if cache.is_dir() else {}


def test_programs_are_kept_with_a_digest_and_taken_from_there(run, cache):
    assert run(1) == [1]
    ((first, program),) = entries(cache).items()
    assert len(first) == 64
    assert is_whole(program)
    assert run(2) == [2]
    (second,) = entries(cache).keys() - {first}
    # Only one that is really taken from the cache can be the wrong one.
    (cache / first).write_bytes((cache / second).read_bytes())
    assert run(1) == [2]


def is_whole(program: bytes) -> bool:
    header, kept = program[: len(MAGIC) + 64], program[len(MAGIC) + 64 :]
    return header == MAGIC + hashlib.sha256(kept).hexdigest().encode()


DAMAGE = [
    lambda program: b"",
    lambda program: program[:-100],
    lambda program: program[:200] + bytes([program[200] ^ 1]) + program[201:],
    lambda program: b"something else",
    # Whole by its digest, and nonsense to the driver.
    lambda program: MAGIC + hashlib.sha256(b"nonsense").hexdigest().encode() + b"nonsense",
]


def test_damaged_entries_are_ignored_and_rebuilt(run, cache):
    assert run(1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
    for (name, program), damage in zip(entries(cache).items(), DAMAGE, strict=True):
        (cache / name).write_bytes(damage(program))
    assert run(1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
    for program in entries(cache).values():
        assert is_whole(program) and len(program) > 1000


def test_other_options_and_another_device_have_programs_of_their_own(run, cache):
    run(1)
    run(1, TVMAKE_OPENCL_OPTIONS="-cl-fast-relaxed-math")
    assert len(entries(cache)) == 2
    run(1, POCL_DEVICES="basic")
    assert len(entries(cache)) == 3


def test_the_cache_can_be_turned_off(run, cache):
    assert run(1, TVMAKE_OPENCL_CACHE="0") == [1]
    assert entries(cache) == {}


def test_a_cache_that_cannot_be_written_is_no_hindrance(run, cache):
    cache.write_text("a file where the directory should be")
    assert run(1, 2) == [1, 2]


def test_processes_that_fill_the_cache_at_once_leave_whole_entries(run, cache, tmp_path):
    # PoCL's own cache does not stand several processes that compile the same program at once.
    own = [tmp_path / f"pocl-{number}" for number in range(2)]
    for directory in own:
        directory.mkdir()
    with ThreadPoolExecutor(2) as pool:
        outputs = pool.map(lambda directory: run(1, 2, POCL_CACHE_DIR=str(directory)), own)
        assert list(outputs) == [[1, 2]] * 2
    programs = entries(cache)
    assert len(programs) == 2
    assert all(map(is_whole, programs.values()))
