"""Programs that need nothing on a device but its kernel: static, for any Linux and for Android, CPU packages only.

zig compiles them, with musl as the C library, so that neither a cross compiler nor the NDK is needed. A static program has
no dynamic loader, and Android's C library could not be used by one of another C library anyway: what loads a package's
``mod.so`` is in ``native/loader``. OpenCL drivers are libraries of the system's own C library, so that these programs
cannot use them.
"""

from collections.abc import Callable

from tvmake.errors import MachineError
from tvmake.native.compile import build_part
from tvmake.native.parts import TVM_RUNTIME, Toolchain
from tvmake.native.zig import INSTALL, script, zig_command

PROCESSORS = ("aarch64", "x86_64")
"""Whose relocations the loader knows."""

STACK_BYTES = 8 << 20
"""Of each thread, as glibc has it. musl's 128 KiB are too few for some kernels."""

PAGE_BYTES = 65536
"""The largest pages of 64-bit Arm; Android 15 has devices with 16 KiB."""


FLAGS = ("-g0", "-DTVM_FFI_CMAKE_LITTLE_ENDIAN=1")
"""zig adds debugging information unless told not to; tvm_ffi does not recognise musl, and asks which order bytes have."""


def toolchain(processor: str, progress: Callable[[str], None] | None = None) -> Toolchain:
    """zig, with TVM's runtime compiled by it, which takes minutes the first time.

    Args:
        processor: one of :data:`PROCESSORS`.

    Raises:
        MachineError: zig or cmake is missing, or TVM's sources do not compile.
    """
    command = zig_command()
    if command is None:
        raise MachineError(f"programs for Linux on {processor}", "zig is not installed, which compiles them", INSTALL)
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
