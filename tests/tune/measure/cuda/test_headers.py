"""CUDA candidates are compiled without the C++ library's headers if their source does not need them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvm

from tvmake.targets.backends import kernel_pipeline
from tvmake.tune.measure.cuda.headers import HEADERS, is_plain

from tvm import te  # isort: skip
from tvm.s_tir import Schedule  # isort: skip

TARGET = {"kind": "cuda", "arch": "sm_90", "max_num_threads": 1024, "thread_warp_size": 32}

NVRTC = ["-D__CUDACC_RTC__", "-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0", "-D__device__=", "-D__global__="]
"""What its preprocessor and its language know of themselves."""


def source_of(dtype: str) -> str:
    """What TVM generates for a kernel that doubles."""
    x = te.placeholder((64,), dtype, name="x")
    schedule = Schedule(te.create_prim_func([x, te.compute((64,), lambda i: x[i] + x[i], name="y")]))
    schedule.bind(schedule.get_loops(schedule.get_sblock("y"))[0], "threadIdx.x")
    target = tvm.target.Target(TARGET, host="llvm")
    built = tvm.tirx.build(schedule.mod, target=target, pipeline=kernel_pipeline(target))
    return next(one.inspect_source() for one in imported(built) if one.kind == "cuda")


def imported(module: Any) -> Iterator[Any]:
    for one in module.imports:
        yield one
        yield from imported(one)


def test_a_float32_kernel_needs_names_of_integers_only():
    assert is_plain(source_of("float32"))


def test_a_float16_kernel_needs_the_headers_of_half():
    assert not is_plain(source_of("float16"))


def test_source_that_uses_a_trait_needs_the_library():
    plain = source_of("float32")
    assert not is_plain(plain + "\nstatic_assert(std::is_same_v<float, float>);")


def test_the_plain_headers_declare_all_that_TVMs_own_preamble_names(tmp_path: Path):
    for name, text in HEADERS.items():
        header = tmp_path / name.decode()
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_bytes(text)
    preamble = source_of("float32").split('extern "C"')[0]
    uses = "#include <cuda/std/limits>\nint64_t a; uint8_t b; bool c = sizeof(int64_t) == 8 && sizeof(uint16_t) == 2;\n"
    program = tmp_path / "kernel.cc"
    program.write_text("float __int_as_float(int);\n" + preamble + uses)
    command = ["g++", "-std=c++17", "-fsyntax-only", "-D__volatile__=volatile", *NVRTC, f"-I{tmp_path}", str(program)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
