"""Static programs that need only a device's kernel: for any Linux and for Android, CPU packages only.

zig compiles them with musl as C library, without a cross compiler or the NDK. A static program has no dynamic loader, and
a program of another C library could not use Android's anyway, so ``native/loader`` loads a package's ``mod.so``. These
programs cannot use OpenCL drivers, which are libraries of the system's own C library.
"""

from collections.abc import Callable

from tvmake.errors import MachineError
from tvmake.native.compile import build_part
from tvmake.native.parts import TVM_RUNTIME, Toolchain
from tvmake.native.zig import INSTALL, script, zig_command

PROCESSORS = ("aarch64", "x86_64")
"""Processors whose relocations the loader supports."""

STACK_BYTES = 8 << 20
"""The stack of each thread, as in glibc. musl's 128 KiB are too small for some kernels."""

PAGE_BYTES = 65536
"""The largest page size of 64-bit Arm; Android 15 has devices with 16 KiB."""


FLAGS = ("-g0", "-DTVM_FFI_CMAKE_LITTLE_ENDIAN=1")
"""zig adds debugging information by default; tvm_ffi does not recognise musl, and needs the byte order."""


def toolchain(processor: str, progress: Callable[[str], None] | None = None) -> Toolchain:
    """zig, with TVM's runtime, which takes minutes to compile on the first call.

    Raises:
        MachineError: zig or cmake is missing, or TVM's sources do not compile.
    """
    command = zig_command()
    if command is None:
        raise MachineError(f"programs for Linux on {processor}", "zig, which compiles them, is not installed", INSTALL)
    triple = f"{processor}-linux-musl"
    tools = {"CMAKE_AR": "ar", "CMAKE_RANLIB": "ranlib"}
    link = f"-static -Wl,-z,stack-size={STACK_BYTES} -Wl,-z,max-page-size={PAGE_BYTES}"
    bare = Toolchain(
        name=triple,
        compiler=str(script([*command, "c++", "-target", triple], f"zig-c++-{triple}")),
        system="Linux",
        processor=processor,
        flags=FLAGS,
        definitions=(
            *(f"{name}={script([*command, tool], f'zig-{tool}')}" for name, tool in tools.items()),
            f"CMAKE_EXE_LINKER_FLAGS={link}",
        ),
    )
    archive = build_part(TVM_RUNTIME, bare, progress)
    return Toolchain(**{**vars(bare), "archive": str(archive), "directories": ("loader",)})
