"""``tvmake show``: the functions of a package, their signatures, and the size of their weights."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson

if TYPE_CHECKING:
    from tvmake.artifact.functions import FunctionsManifest
    from tvmake.artifact.manifest import Manifest
    from tvmake.artifact.signature import TensorSpec

    Networks = dict[str, Manifest]
    """By function; the name is empty for a package with one network."""

    Weights = dict[str, int]
    """Bytes by name."""


def show(
    package: Annotated[Path, typer.Argument(help="A package.tar.")],
    as_json: AsJson = False,
) -> None:
    """Show what a package computes: its functions with their inputs, outputs and states, and the size of their weights.

    The package's digests are checked first; its code is not loaded.
    """
    from tvmake.artifact.functions import FunctionsManifest
    from tvmake.artifact.package import check_is_package_file, inspect_functions
    from tvmake.cli.terminal import print_json
    from tvmake.process.output import printable
    from tvmake.running.arguments import check_is_package

    check_is_package_file(package)
    check_is_package(package)
    manifest, functions = inspect_functions(package)
    networks = functions if isinstance(manifest, FunctionsManifest) else {"": manifest}
    weights = {name: _weights(manifest, name, network) for name, network in networks.items()}
    rows = {name: _row(name, manifest, networks, weights) for name in networks}
    total = sum({name: size for own in weights.values() for name, size in own.items()}.values())
    about = {
        "package": str(package),
        "variant": f"{manifest.model}/{manifest.precision}/{manifest.target_name}",
        "weight_bytes": total,
    }
    if as_json:
        print_json({**about, **rows.get("", {"functions": rows})})
        return
    typer.echo(printable(f"{package}: {about['variant']}, weights {_size_text(total)}"))
    for name, row in rows.items():
        _print(name, row)


def _weights(manifest: "Manifest | FunctionsManifest", function: str, network: "Manifest") -> "Weights":
    """The weights of a function, by their names in the package."""
    import math

    from tvmake.artifact.functions import FunctionsManifest
    from tvmake.artifact.tensor_file import numpy_dtype

    names: tuple[str, ...] = tuple(parameter.name for parameter in network.parameters)
    if isinstance(manifest, FunctionsManifest):
        (names,) = (entry.weights for entry in manifest.functions if entry.name == function)
    return {
        name: math.prod(parameter.shape) * numpy_dtype(parameter.dtype).itemsize
        for name, parameter in zip(names, network.parameters, strict=True)
    }


def _row(
    name: str, manifest: "Manifest | FunctionsManifest", networks: "Networks", weights: "dict[str, Weights]"
) -> dict[str, Any]:
    from tvmake.artifact.functions import FunctionsManifest
    from tvmake.artifact.states import PackageStates, state_key

    signature, self_test = networks[name].signature, networks[name].self_test
    elsewhere = {weight for other, names in weights.items() if other != name for weight in names}
    separate = manifest.separate_states if isinstance(manifest, FunctionsManifest) else ()
    signatures = {other: part.signature for other, part in networks.items()}
    functions = PackageStates.of_functions("", signatures, separate=separate).functions
    keys = [state_key(state, name if state.name in separate else "") for state in signature.states]
    shared = {key.name: [other for other in functions[key] if other != name] for key in keys}
    entries = manifest.functions if isinstance(manifest, FunctionsManifest) else ()
    links = {entry.name: entry.links for entry in entries}
    givers = {target: giver for giver, pairs in links.items() for target in pairs.values() if giver != name}
    return {
        "target": networks[name].device_kind,
        "inputs": [{**_tensor(spec), **_giver(spec.name, givers)} for spec in signature.inputs],
        "outputs": list(map(_tensor, signature.outputs)),
        "states": [
            {**_tensor(state), "shared_with": shared[state.name], **_giver(state.name, givers)}
            for state in signature.states
        ],
        "weight_bytes": sum(weights[name].values()),
        "shared_weight_bytes": sum(size for weight, size in weights[name].items() if weight in elsewhere),
        "self_test_samples": self_test.samples if self_test else 0,
    }


def _giver(name: str, givers: "dict[str, str]") -> dict[str, str]:
    """The function whose output a tensor is, if another one gives it."""
    return {"given_by": givers[name]} if name in givers else {}


def _tensor(spec: "TensorSpec") -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def _print(name: str, row: dict[str, Any]) -> None:
    from tvmake.process.output import printable

    indent = "  "
    if name:
        shared = row["shared_weight_bytes"]
        own = f"{_size_text(shared)} shared, {_size_text(row['weight_bytes'] - shared)} its own"
        typer.echo(f"function {name}: weights {own}")
    for kind in ("input", "output", "state"):
        for spec in row[f"{kind}s"]:
            shape = ", ".join(map(str, spec["shape"]))
            shared = f", shared with {', '.join(spec['shared_with'])}" if spec.get("shared_with") else ""
            given = f", given by {spec['given_by']}" if "given_by" in spec else ""
            typer.echo(printable(f"{indent}{kind} {spec['name']}: {spec['dtype']} [{shape}]{shared}{given}"))


def _size_text(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
