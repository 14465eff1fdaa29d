"""Run one 64-bit Arm kernel in an emulator, without TVM's runtime: the kernel's object, and a program that calls it."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tests.native.emulated import EMULATOR, require_emulator
from tests.patience import HANG_S

PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// include/tvm/ffi/c_api.h and dlpack/dlpack.h, as far as a kernel reads them.
struct Device { int32_t type, id; };
struct Type { uint8_t code, bits; uint16_t lanes; };
struct Tensor { void *data; Device device; int32_t ndim; Type dtype; int64_t *shape, *strides; uint64_t offset; };
struct Any { int32_t index; uint32_t zero; union { int64_t integer; void *pointer; }; };
extern "C" int __tvm_ffi_kernel(void *, Any *, int32_t, Any *);

// include/tvm/runtime/c_backend_api.h, on one core; kernels call these through pointers that a runtime sets.
struct Group { void *sync; int32_t count; };
using Task = int (*)(int, Group *, void *);
static int launch(Task task, void *data, int) {
  Group group{nullptr, 1};
  return task(0, &group, data);
}
static void *allocate(int, int, uint64_t bytes, int, int) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
static int release(int, int, void *data) {
  std::free(data);
  return 0;
}
extern "C" {
decltype(&launch) __TVMBackendParallelLaunch = launch;
decltype(&allocate) __TVMBackendAllocWorkspace = allocate;
decltype(&release) __TVMBackendFreeWorkspace = release;
}

int main(int count, char **files) {
  std::vector<Any> arguments;
  Tensor *last = nullptr;
  size_t bytes = 0;
  for (int i = 1; i < count; ++i) {
    FILE *file = std::fopen(files[i], "rb");
    int64_t head[4];
    if (!file || std::fread(head, 8, 4, file) != 4) return 2;
    int64_t ndim = head[0];
    auto *shape = new int64_t[ndim];
    if (std::fread(shape, 8, ndim, file) != size_t(ndim)) return 2;
    bytes = head[3];
    void *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (std::fread(data, 1, bytes, file) != bytes) return 2;
    std::fclose(file);
    last = new Tensor{data, {1, 0}, int32_t(ndim), {uint8_t(head[1]), uint8_t(head[2]), 1}, shape, nullptr, 0};
    Any argument{};
    argument.index = 7;  // kTVMFFIDLTensorPtr
    argument.pointer = last;
    arguments.push_back(argument);
  }
  Any result{};
  if (int status = __tvm_ffi_kernel(nullptr, arguments.data(), arguments.size(), &result)) return 10 + status;
  std::fwrite(last->data, 1, bytes, stdout);
}
"""

CODES = {"i": 0, "u": 1, "f": 2}
"""DLPack's type codes by NumPy's kind."""


def run(kernel: "tvm.tirx.PrimFunc", target: "tvm.target.Target", arguments: list[np.ndarray], directory: Path) -> Any:
    """The values that a kernel writes to its last argument."""
    require_emulator()
    library = tvm.compile(tvm.IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")}), target=target)
    module = library.mod if hasattr(library, "mod") else library
    module.write_to_file(str(directory / "kernel.o"), "o")
    (directory / "program.cc").write_text(PROGRAM)
    command = ["aarch64-linux-gnu-g++", "-O1", "-static", "program.cc", "kernel.o", "-o", "program"]
    # Errors would go to the runtime, which is missing here.
    subprocess.run([*command, "-Wl,--unresolved-symbols=ignore-all"], cwd=directory, check=True, timeout=HANG_S)
    files = []
    for number, value in enumerate(arguments):
        head = [value.ndim, CODES[value.dtype.kind], value.dtype.itemsize * 8, value.nbytes, *value.shape]
        (directory / f"{number}").write_bytes(np.asarray(head, "<i8").tobytes() + np.ascontiguousarray(value).tobytes())
        files.append(str(directory / f"{number}"))
    done = subprocess.run(
        [EMULATOR[0], str(directory / "program"), *files], capture_output=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return np.frombuffer(done.stdout, arguments[-1].dtype).reshape(arguments[-1].shape)
