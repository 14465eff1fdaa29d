"""``tvmake pack``: join packages to one with several functions."""

from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.configs import AsJson
from tvmake.cli.terminal import output_file


def pack(
    functions: Annotated[
        list[str], typer.Argument(metavar="FUNCTION=PACKAGE", help="A package for each function: decode=decode.tar.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", parser=output_file, help="Package to write.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Name of the model; by default the output's name.")
    ] = None,
    links: Annotated[
        list[str] | None,
        typer.Option("--link", metavar="FUNCTION:OUTPUT=INPUT", help="An output that is an input or a state of other functions; repeatable."),
    ] = None,
    separate: Annotated[
        list[str] | None,
        typer.Option("--separate-state", metavar="STATE", help="A state that functions of the same name, type and shape do not share; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Join packages to one with several functions, which has each distinct weight once.

    The packages are those of `tvmake compile` or `tvmake make`, for one kind of device. In a config, `models.NAME.functions`
    also lets the functions agree on the layout of weights, so that more of them are equal.
    """
    from tvmake.artifact.joining import join
    from tvmake.artifact.package import WEIGHTS, check_is_package_file, inspect_functions, is_package
    from tvmake.artifact.states import shared_states, unshared_states
    from tvmake.cli.terminal import print_json
    from tvmake.plan.single import name_of
    from tvmake.process.output import printable
    from tvmake.report import quantities
    from tvmake.running.arguments import check_is_package
    from tvmake.storage.destinations import check_destination

    packages = _named_packages(functions)
    check_destination(output, "package", is_package)
    for file in packages.values():
        check_is_package_file(file)
        check_is_package(file)
    manifest = join(
        packages,
        output,
        model=model or name_of(output.stem),
        links=_named_links(links or []),
        separate_states=separate or [],
    )
    signatures = {name: own.signature for name, own in inspect_functions(output)[1].items()}
    for note in unshared_states(signatures, manifest.separate_states):
        typer.echo(printable(f"warning: {note}"), err=True)
    if as_json:
        print_json(manifest.model_dump(mode="json", exclude={"provenance"}))
        return
    weights = quantities.size(manifest.files[WEIGHTS].size)
    names = ", ".join(function.name for function in manifest.functions)
    typer.echo(printable(f"wrote {output}: functions {names}; {weights} of weights, each distinct one once"))
    for state, sharing in shared_states(signatures, manifest.separate_states).items():
        typer.echo(printable(f"  state {state}: shared by {', '.join(sharing)}"))


def _named_links(words: list[str]) -> dict[str, dict[str, str]]:
    """Parse ``FUNCTION:OUTPUT=INPUT`` words."""
    from tvmake.errors import UsageError

    links: dict[str, dict[str, str]] = {}
    for word in words:
        function, _, pair = word.partition(":")
        output, _, taken = pair.partition("=")
        if not (function and output and taken):
            remedy = "write FUNCTION:OUTPUT=INPUT, as encode:present.%d.key=past_key_values.%d.key"
            raise UsageError(f"--link '{word}'", "is not an output and an input", remedy)
        links.setdefault(function, {})[output] = taken
    return links


def _named_packages(words: list[str]) -> dict[str, Path]:
    """Parse ``FUNCTION=PACKAGE`` words."""
    from tvmake.errors import UsageError

    packages: dict[str, Path] = {}
    for word in words:
        name, equals, file = word.partition("=")
        if not equals or not name or not file:
            raise UsageError(word, "is not a function and its package", "write FUNCTION=PACKAGE, as decode=decode.tar")
        if name in packages:
            raise UsageError(word, f"names the function '{name}' again", "give each package a name of its own")
        packages[name] = Path(file)
    return packages
