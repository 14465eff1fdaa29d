"""Detached signatures of packages, in the format of OpenSSH (``ssh-keygen -Y``).

The signature is a separate file, so signing does not change the package. The format is OpenSSH's PROTOCOL.sshsig: people have
such keys, and every machine has a second program that creates and verifies them. It covers the whole package including
the statement inside; the provenance file beside a package has its own signature.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tvmake.errors import InputError
from tvmake.provenance.keys import ED25519, name_of, read_private_key, ssh_form, ssh_string
from tvmake.storage.files import write_bytes
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import open_plain

SUFFIX = ".sig"
"""As ``ssh-keygen -Y sign`` names it."""

NAMESPACE = "tvmake-package"
"""Prevents signatures for other purposes, such as git commits, from counting as package signatures."""

MAGIC = b"SSHSIG"
VERSION = (1).to_bytes(4, "big")
HASHES = ("sha512", "sha256")
"""Hash algorithms of the format; OpenSSH and tvmake use the first."""

MOST_BYTES = 64 << 10
"""A signature has about 300 bytes."""

_ARMOR = re.compile(rb"-----BEGIN SSH SIGNATURE-----\s+([A-Za-z0-9+/=\s]+?)\s*-----END SSH SIGNATURE-----\s*")
_AGAIN = "copy package and signature again from their source; the author can sign the package again with `tvmake sign`"


@dataclass(frozen=True)
class Signed:
    """A signature that fits its file."""

    key: bytes
    """The signer's public key."""

    @property
    def by(self) -> str:
        """The key's fingerprint as OpenSSH writes it."""
        return name_of(self.key)


def signature_file(package: Path) -> Path:
    """The path of a package's signature."""
    return package.with_name(package.name + SUFFIX)


def sign(package: Path, key: Path) -> Signed:
    """Write a package's signature beside it; the same key and package give the same bytes.

    Raises:
        InputError: the key cannot be used, or a directory has the signature's name.
        MachineError: the signature cannot be written.
    """
    if signature_file(package).is_dir():
        raise InputError(str(signature_file(package)), "is a directory", "move it away: the signature goes there")
    private = read_private_key(key)
    public = private.public_key().public_bytes_raw()
    signature = private.sign(_signed_bytes(package, HASHES[0]))
    blob = MAGIC + VERSION + ssh_string(ssh_form(public))
    blob += ssh_string(NAMESPACE.encode()) + ssh_string(b"") + ssh_string(HASHES[0].encode())
    blob += ssh_string(ssh_string(ED25519.encode()) + ssh_string(signature))
    text = base64.b64encode(blob).decode()
    # Lines as long as OpenSSH's own.
    lines = [text[start : start + 70] for start in range(0, len(text), 70)]
    armored = "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])
    write_bytes(signature_file(package), armored.encode())
    return Signed(public)


def check(package: Path, signature: Path) -> Signed:
    """Check that a signature belongs to this package, by any key.

    Raises:
        InputError: it is damaged, has another kind or purpose, or does not match the package.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    where = str(signature)
    fields = _Fields(_blob(signature), where)
    fields.expect(MAGIC + VERSION)
    key = _Fields(fields.string(), where)
    kind = key.text()
    if kind != ED25519:
        raise InputError(where, f"is by a key of another kind ({kind[:40]}); packages are signed with {ED25519}")
    public = key.string(32)
    key.end()
    purpose = fields.text()
    if purpose != NAMESPACE:
        raise InputError(where, f"is a signature for another purpose ('{purpose[:40]}', not '{NAMESPACE}')", _AGAIN)
    fields.string()  # reserved; the signed data contain it, here empty
    algorithm = fields.text()
    if algorithm not in HASHES:
        raise InputError(where, f"uses an unknown digest ({algorithm[:20]})", _AGAIN)
    signed = _Fields(fields.string(), where)
    fields.end()
    if signed.text() != ED25519:
        raise fields.damaged
    proof = signed.string(64)
    signed.end()
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(proof, _signed_bytes(package, algorithm))
    except InvalidSignature:
        raise InputError(where, f"does not match {package.name}: one of the two was altered", _AGAIN) from None
    return Signed(public)


def _signed_bytes(package: Path, algorithm: str) -> bytes:
    with open_plain(package) as file:
        digest = hashlib.file_digest(file, algorithm).digest()
    return MAGIC + b"".join(ssh_string(part) for part in (NAMESPACE.encode(), b"", algorithm.encode(), digest))


def _blob(signature: Path) -> bytes:
    try:
        with open_plain(signature) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable_error(signature, error) from None
    armored = _ARMOR.fullmatch(data)
    try:
        return base64.b64decode(b"".join(armored[1].split()), validate=True) if armored else b""
    except binascii.Error:
        return b""


class _Fields:
    """The strings of RFC 4251, one after the other."""

    def __init__(self, data: bytes, where: str):
        self.data = data
        self.damaged = InputError(where, "is not a signature, or is damaged", _AGAIN)

    def expect(self, start: bytes) -> None:
        if not self.data.startswith(start):
            raise self.damaged
        self.data = self.data[len(start) :]

    def string(self, length: int | None = None) -> bytes:
        size = int.from_bytes(self.data[:4], "big")
        if len(self.data) < 4 + size or (length is not None and size != length):
            raise self.damaged
        text, self.data = self.data[4 : 4 + size], self.data[4 + size :]
        return text

    def text(self) -> str:
        text = self.string().decode("ascii", "replace")
        return text if text.isprintable() else repr(text)

    def end(self) -> None:
        if self.data:
            raise self.damaged
