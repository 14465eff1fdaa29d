"""``tvmake verify``: whether packages are what they say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tvmake.provenance.check import Checked


def verify(
    packages: Annotated[list[Path], typer.Argument(help="Packages to check (package.tar).")],
    key: Annotated[
        Path | None,
        typer.Option("--key", "-k", help="Public Ed25519 key(s) to trust; the package must be signed by one of them."),
    ] = None,
    require_signature: Annotated[
        bool, typer.Option("--require-signature", help="Refuse a package without a signature, by whatever key it is.")
    ] = False,
) -> None:
    """Check a package's digests, provenance, component list and signature, without loading its code.

    Exits with 1 and one line at the first thing that does not fit.
    """
    from tvmake.errors import TvmakeError
    from tvmake.provenance.check import check_package

    for package in packages:
        try:
            _say(package, check_package(package, key, require_signature=require_signature))
        except TvmakeError as error:
            raise type(error)(error.where, error.problem) from None


def _say(package: Path, checked: "Checked") -> None:
    from tvmake.cli.record_tables import printable

    manifest = checked.manifest
    versions = {part.name: part.version for part in manifest.components}
    typer.echo(f"{package}: intact, sha256 {checked.sha256}")
    made_with = f"tvmake {versions.get('tvmake', '?')}, TVM {versions.get('apache-tvm', '?')}"
    typer.echo(printable(f"  {manifest.model}/{manifest.precision}/{manifest.target_name}, made with {made_with}"))
    source = ", ".join(manifest.source.get("files", {})) or manifest.source.get("source", "?")
    records = f", records {manifest.records_sha256[:12]}…" if manifest.records_sha256 else ""
    typer.echo(printable(f"  provenance: from {source}{records}"))
    if checked.has_list:
        typer.echo("  component list: as the package says")
    if checked.signed is None:
        typer.echo("  not signed")
    elif checked.is_trusted:
        typer.echo(f"  signed by the given key, {checked.signed.by}")
    else:
        typer.echo(f"  signed by {checked.signed.by}; whose key that is, --key tells")
