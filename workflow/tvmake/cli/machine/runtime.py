"""``tvmake runtime …``: compile what TVM's wheel lacks on devices, and see what is compiled."""

import json
import shutil
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Compile the device-side C++ that TVM's wheel lacks.")


@app.command("build")
def build_command(
    part: Annotated[str, typer.Argument(metavar="[opencl|server|runner|abi|jni|all]", help="What to compile.")] = "all",
) -> None:
    """Compile a part for this machine, unless this very build exists; needs cmake and g++.

    opencl is the runtime library for OpenCL packages: once it is built, every `import tvm` of this Python finds it.
    server is an RPC server for devices without Python, runner runs a package there. abi and jni are for programs of
    yours in C, C++, Java and Kotlin; jni needs a JDK, too, and `all` leaves it out where there is none.
    """
    from tvmake.native.compile import build

    for name in _names(part):
        typer.echo(f"{name}: {build(name, progress=lambda line: typer.echo(line, err=True))}")


@app.command("list")
def list_command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the parts, and where those that are compiled for the installed TVM lie."""
    from tvmake.native.parts import find_built, parts

    found = {part: find_built(name) for name, part in parts().items()}
    if as_json:
        rows = [
            {"part": part.name, "purpose": part.purpose, "file": str(file) if file else None}
            for part, file in found.items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    for part, file in found.items():
        typer.echo(f"{part.name:8} {part.purpose:40} {file or f'not built: tvmake runtime build {part.name}'}")


def _names(name: str) -> list[str]:
    from tvmake.errors import UsageError
    from tvmake.native.parts import parts

    names = list(parts())
    if name == "all":
        return [part for part in names if part != "jni" or shutil.which("javac")]
    if name not in names:
        raise UsageError("runtime build", f"there is no part {name!r}", f"there are {', '.join(names)} and all")
    return [name]
