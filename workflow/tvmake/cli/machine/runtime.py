"""``tvmake runtime …``: compile the C++ that devices need and TVM's wheel lacks, and list the parts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.terminal import output_file

app = typer.Typer(no_args_is_help=True, help="Compile the C++ that devices need and TVM's wheel lacks.")


@app.command("build")
def build_command(
    part: Annotated[
        str,
        typer.Argument(
            metavar="opencl|server|runner|abi|jni|all|TRIPLE", help="Part to compile, or system to compile for."
        ),
    ] = "all",
    api: Annotated[
        int | None,
        typer.Option("--api", min=1, help="Android API level for the programs. [default: 24]"),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="With a TRIPLE: write the programs to this tar file. With abi: write headers and libraries to this directory.",
        ),
    ] = None,
) -> None:
    """Compile a part for this machine, or all programs for another system, unless the same build exists.

    opencl is the runtime library for OpenCL packages: every `import tvm` of this Python loads it once it is built.
    server is an RPC server for devices without Python, runner runs a package there. abi and jni are for your
    programs in C, C++, Java and Kotlin; `abi -o DIR` writes the headers and libraries that a C++ program is compiled with.
    jni needs a JDK, and `all` skips it without one. All need cmake and g++.

    A TRIPLE builds a directory of programs for devices: aarch64-linux-android with the NDK (ANDROID_NDK_HOME, or the
    directory of Android Studio), or without it for CPU packages; aarch64-linux-musl for any 64-bit Arm Linux and Android, CPU
    packages only, with zig (pip install 'tvmake[android]'); aarch64-linux-gnu with Debian's cross compiler.
    """
    from tvmake.errors import UsageError
    from tvmake.native.compile import build

    def progress(line: str) -> None:
        typer.echo(line, err=True)

    if "-" in part:
        _build_for(part, api, output_file(output) if output is not None else None, progress)
        return
    if api is not None or (output is not None and part != "abi"):
        remedy = "name one, such as aarch64-linux-android" + (
            "" if api else "; `runtime build abi -o DIR` writes a library"
        )
        raise UsageError("runtime build", "--api and --output need a triple", remedy)
    if output is not None:
        from tvmake.native.development import write_library

        write_library(Path(output), progress)
        typer.echo(output)
        return
    for name in _names(part):
        typer.echo(f"{name}: {build(name, progress=progress)}")


def _build_for(triple: str, api: int | None, output: Path | None, progress: Callable[[str], None]) -> None:
    import tarfile

    from tvmake.native.bundle import bundle_for, pack, parse_triple
    from tvmake.storage.destinations import check_destination

    if output is not None:
        check_destination(output, "tar of programs", tarfile.is_tarfile)
    directory = bundle_for(parse_triple(triple, api), progress)
    if output is None:
        typer.echo(directory)
        return
    pack(directory, output)
    typer.echo(output)


@app.command("list")
def list_command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the parts, and the files of those that are compiled for the installed TVM."""
    from tvmake.native.parts import find_built, parts

    files = {part: find_built(name) for name, part in parts().items()}
    if as_json:
        rows = [
            {"part": part.name, "purpose": part.purpose, "file": str(file) if file else None}
            for part, file in files.items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for part, file in files.items():
        typer.echo(f"{part.name:8} {part.purpose:40} {file or f'not built: tvmake runtime build {part.name}'}")


def _names(name: str) -> list[str]:
    from tvmake.errors import UsageError
    from tvmake.native.parts import parts

    names = list(parts())
    if name == "all":
        return [part for part in names if part != "jni" or shutil.which("javac")]
    if name not in names:
        raise UsageError("runtime build", f"no such part: {name!r}", f"the parts are {', '.join(names)} and all")
    return [name]
