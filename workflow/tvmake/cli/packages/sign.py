"""``tvmake sign``: write a signature beside a package."""

from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.configs import AsJson


def sign(
    packages: Annotated[list[Path], typer.Argument(help="Packages to sign (package.tar).")],
    key: Annotated[
        Path, typer.Option("--key", "-k", help="Ed25519 private key: OpenSSH's format or PEM, without a passphrase.")
    ],
    as_json: AsJson = False,
) -> None:
    """Sign packages: write PACKAGE.sig, in OpenSSH's format, beside each. The packages are unchanged.

    A package's provenance file beside it is signed too.

    `ssh-keygen -Y sign -n tvmake-package -f KEY FILE` makes the same signature, also with a key that has a passphrase,
    is in an agent, or is on a hardware token with plain Ed25519 keys.
    """
    from tvmake.artifact.package import check_is_package_file
    from tvmake.cli.terminal import print_json
    from tvmake.provenance.check import check_package, to_sign
    from tvmake.provenance.keys import read_private_key
    from tvmake.provenance.signature import sign as sign_file
    from tvmake.provenance.signature import signature_file
    from tvmake.running.arguments import check_is_package

    read_private_key(key)
    rows = []
    for package in packages:
        # A signature vouches for a package: check that it is intact and that its lists match. Old signatures are ignored.
        check_is_package_file(package)
        check_is_package(package)
        check_package(package, ignore_signature=True)
    for file in [file for package in packages for file in to_sign(package)]:
        signed = sign_file(file, key)
        rows.append({"signature": str(signature_file(file)), "signed_by": signed.by})
        if not as_json:
            typer.echo(f"{signature_file(file)}: signed by {signed.by}")
    if as_json:
        print_json(rows)
