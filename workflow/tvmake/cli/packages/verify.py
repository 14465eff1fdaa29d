"""``tvmake verify``: check that packages are authentic and intact."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson

if TYPE_CHECKING:
    from tvmake.artifact.manifest import Manifest
    from tvmake.provenance.check import Checked

AGAIN = "copy the package and the files beside it again from their source; `tvmake make` rebuilds your own"


def verify(
    packages: Annotated[list[Path], typer.Argument(help="Packages to check (package.tar).")],
    key: Annotated[
        Path | None,
        typer.Option("--key", "-k", help="Public Ed25519 key(s) to trust; the package must be signed by one of them."),
    ] = None,
    require_signature: Annotated[
        bool, typer.Option("--require-signature", help="Refuse packages without a signature (by any key).")
    ] = False,
    made_from: Annotated[
        Path | None,
        typer.Option("--from", help="A file that it must be made from: the model's, or one of the imported network."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a package's digests, provenance, component list and signatures, without loading its code.

    Exits with 1 at the first problem, with one line for the problem and one for the remedy.
    """
    from tvmake.artifact.package import check_is_package_file
    from tvmake.cli.terminal import print_json
    from tvmake.errors import TvmakeError
    from tvmake.provenance.check import check_package
    from tvmake.provenance.origin import check_made_of
    from tvmake.running.arguments import check_is_package

    rows = []
    for package in packages:
        try:
            check_is_package_file(package)
            check_is_package(package)
            checked = check_package(package, key, require_signature=require_signature)
            if made_from is not None:
                check_made_of(made_from, package, [*checked.networks.values()], checked.source)
            rows.append(_row(package, checked, made_from))
            if not as_json:
                _print_checked(package, checked, made_from)
        except TvmakeError as error:
            raise type(error)(error.where, error.problem, error.remedy or AGAIN) from None
    if as_json:
        print_json(rows)


def _row(package: Path, checked: "Checked", made_from: Path | None) -> dict[str, Any]:
    manifest = checked.manifest
    networks = {name: _network_row(network) for name, network in checked.networks.items()}
    return {
        "package": str(package),
        "sha256": checked.sha256,
        "variant": f"{manifest.model}/{manifest.precision}/{manifest.target_name}",
        **networks.get("", {"functions": networks}),
        "source": checked.source and checked.source.model_dump(mode="json"),
        "made_from": made_from and str(made_from),
        "has_component_list": checked.has_list,
        "signed_by": checked.signed and checked.signed.by,
        "source_signed_by": checked.source_signed and checked.source_signed.by,
        "is_trusted": checked.is_trusted,
    }


def _network_row(manifest: "Manifest") -> dict[str, Any]:
    return {
        "components": {part.name: part.version for part in manifest.components},
        "network": manifest.network,
        "records_sha256": manifest.records_sha256,
    }


def _print_checked(package: Path, checked: "Checked", made_from: Path | None) -> None:
    from tvmake.process.output import printable
    from tvmake.provenance.origin import origin_file

    manifest = checked.manifest
    parts = [part for network in checked.networks.values() for part in network.components]
    versions = {
        name: ", ".join(dict.fromkeys(part.version for part in parts if part.name == name))
        for name in ("tvmake", "apache-tvm")
    }
    typer.echo(f"{package}: intact, sha256 {checked.sha256}")
    made_with = f"tvmake {versions['tvmake'] or '?'}, TVM {versions['apache-tvm'] or '?'}"
    typer.echo(printable(f"  {manifest.model}/{manifest.precision}/{manifest.target_name}, made with {made_with}"))
    for name, part in checked.networks.items():
        network = ", ".join(f"{file} {digest[:12]}…" for file, digest in sorted(part.network.items()))
        records = f", records {part.records_sha256[:12]}…" if part.records_sha256 else ""
        typer.echo(printable(f"  {f'function {name}' if name else 'network'}: {network}{records}"))
    if "" in checked.networks and checked.source is None:
        typer.echo(f"  source: unknown, {origin_file(package).name} is missing")
    elif checked.source is not None:
        typer.echo(printable(f"  source: {checked.source.summary()}"))
    if made_from is not None:
        typer.echo(printable(f"  made from {made_from}"))
    if checked.has_list:
        typer.echo("  component list: matches the package")
    if checked.signed is None:
        typer.echo("  not signed")
    elif checked.is_trusted:
        typer.echo(f"  signed by the given key, {checked.signed.by}")
    else:
        typer.echo(f"  signed by {checked.signed.by}, a key that is not trusted here")
    if checked.source is not None and checked.signed != checked.source_signed:
        by = f"signed by {checked.source_signed.by}" if checked.source_signed else "not signed"
        typer.echo(f"  {origin_file(package).name}: {by}")
    if not checked.is_trusted:
        typer.echo("  not authenticated: digests detect damage, not the author; --key FILE checks the signature")
