"""``tvmake targets``: list the targets that this TVM can compile for."""

from typing import Annotated, Any

import typer

from tvmake.cli.terminal import open_console

SHOWN = (
    "arch",
    "mcpu",
    "mtriple",
    "model",
    "num-cores",
    "max_num_threads",
    "max_shared_memory_per_block",
    "thread_warp_size",
)
"""Attributes in the table, in this order; ``--json`` prints all of them."""


def targets(
    wanted: Annotated[
        str | None,
        typer.Argument(
            metavar="FILTER", help="Show only entries that contain this text: adreno-730, cortex-a72, cuda …"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with every attribute.")] = False,
    passes: Annotated[
        bool, typer.Option("--passes", help="Show the passes of a build for the target FILTER, in order.")
    ] = False,
) -> None:
    """List the target kinds, processors and tags that `targets:` in a config can name.

    A kind is a code generator (`kind: llvm`). A processor is a kind with the limits of one device or family
    (`phone: adreno-730-texture`) and the source of these limits. A tag is the same, defined by TVM
    (`tag: qcom/adreno-opencl`). Kinds without a code generator in this TVM are shown, but cannot be built for; those
    without a runtime can be built for, but run on other machines only.
    """
    from tvmake.errors import InputError

    if passes:
        _print_passes(wanted, as_json)
        return
    from tvmake.targets.listing import known_processors, target_kinds, target_tags

    kinds, processors, tags = target_kinds(), known_processors(), target_tags()
    if wanted:
        kinds = [kind for kind in kinds if wanted.lower() in kind["kind"]]
        processors = [entry for entry in processors if wanted.lower() in _searchable_text(entry)]
        tags = [tag for tag in tags if wanted.lower() in f"{tag['tag']} {tag['kind']} {_attributes(tag)}".lower()]
        if not kinds and not processors and not tags:
            raise InputError(
                wanted, "no target kind, processor or tag contains this text", "`tvmake targets` lists all of them"
            )
    if as_json:
        import json

        typer.echo(json.dumps({"kinds": kinds, "processors": processors, "tags": tags}, indent=2))
    else:
        _print(kinds, processors, tags)


def _print_passes(name: str | None, as_json: bool) -> None:
    from tvmake.codegen.lowering import list_passes
    from tvmake.config.target import TargetConfig, target_keys
    from tvmake.errors import InputError
    from tvmake.targets.resolve import tvm_target

    if name is None:
        raise InputError("--passes", "a target is missing", "name one, such as `tvmake targets llvm --passes`")
    try:
        target = TargetConfig(**target_keys(name))
    except ValueError as error:
        raise InputError(name, str(error)) from None
    phases = list_passes(tvm_target(target, name))
    if as_json:
        import json

        typer.echo(json.dumps(phases, indent=2))
        return
    for phase, names in phases.items():
        typer.echo(f"{phase}: {', '.join(names)}")


def _searchable_text(entry: dict[str, Any]) -> str:
    return " ".join([entry["name"], *entry["members"], entry["kind"], entry["what"]]).lower()


def _attributes(entry: dict[str, Any]) -> str:
    attributes = entry["attributes"]
    parts = [f"{name}={attributes[name]}" for name in SHOWN if name in attributes]
    parts += [" ".join(attributes["mattr"])] if attributes.get("mattr") else []
    parts += [f"host: {_attributes(entry['host'])}"] if entry.get("host") else []
    return " ".join(parts)


def _print(kinds: list[dict[str, Any]], processors: list[dict[str, Any]], tags: list[dict[str, Any]]) -> None:
    from rich.table import Table

    console = open_console()
    if kinds:
        table = Table("kind", "code", "runs here", box=None, pad_edge=False, header_style="bold")
        for kind in kinds:
            runs = {
                True: "with a device",
                False: "no runtime in this TVM",
                None: "yes" if kind["kind"] == "llvm" else "-",
            }
            table.add_row(
                kind["kind"], "yes" if kind["generates"] else "[red]no generator in this TVM[/red]", runs[kind["runs"]]
            )
        console.print(table)
        end = "\n" if processors or tags else ""
        console.print(f"`tvmake doctor` compiles a kernel with each.{end}", style="dim")
    if processors:
        table = Table("processor", "what", "limits", "float16", "source", box=None, pad_edge=False, header_style="bold")
        for entry in processors:
            source = f"{entry['source']} [dim](conservative)[/dim]" if entry["conservative"] else entry["source"]
            table.add_row(
                entry["name"], entry["what"], _attributes(entry), "yes" if entry["float16"] else "[red]no[/red]", source
            )
            if entry["members"]:
                table.add_row("", f"[dim]also {_first_and_last(entry['members'])}[/dim]", "", "", "")
        console.print(table)
        count = sum(1 + len(entry["members"]) for entry in processors)
        console.print(f"{count} processors, in {len(processors)} families\n", style="dim")
    if tags:
        table = Table("tag", "kind", "attributes", box=None, pad_edge=False, header_style="bold")
        for tag in tags:
            table.add_row(tag["tag"], tag["kind"], _attributes(tag))
        console.print(table)
        console.print(f"{len(tags)} tags", style="dim")


def _first_and_last(names: list[str]) -> str:
    """``adreno-505-buffer … adreno-540-buffer``."""
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
