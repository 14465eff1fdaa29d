"""Ed25519 keys in common formats: OpenSSH's files, and PEM.

One kind of key, because each additional kind adds weaknesses. Ed25519 has no parameters to choose wrongly, and `ssh-keygen`
creates such keys by default since 2023.
"""

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.errors import InputError
from tvmake.storage.files import digest_bytes
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import open_plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MOST_BYTES = 1 << 20
"""Maximum file size: a key has less than 1 kB; a list of a large team's keys some hundred."""

ED25519 = "ssh-ed25519"
_SSH_KEY = re.compile(r"\b((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+)\s+(AAAA[A-Za-z0-9+/]+={0,2})")

_MAKE_ONE = "create one with `ssh-keygen -t ed25519 -f KEY`"
_GIVE_PUBLIC = "use the public key, which `ssh-keygen -t ed25519` writes to KEY.pub"


def read_private_key(path: Path) -> "Ed25519PrivateKey":
    """The signing key: an OpenSSH private key file, or PEM (PKCS #8), without a passphrase.

    Raises:
        InputError: it cannot be read, is not a private key, is another kind of key, or has a passphrase.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    data = _read(path)
    if b"PRIVATE KEY" not in data:
        if b"PUBLIC KEY" in data or _SSH_KEY.search(data.decode("utf-8", "replace")):
            raise InputError(
                str(path), "is a public key, but signing needs the private key", "use the file without .pub"
            )
        raise InputError(str(path), "is not a private key", _MAKE_ONE)
    try:
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
        key = load(data, None)
    except TypeError:  # the library's error for a missing passphrase
        raise InputError(
            str(path),
            "is protected by a passphrase",
            f"sign with OpenSSH, which asks for it or its agent: ssh-keygen -Y sign -n tvmake-package -f {path} PACKAGE",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(str(path), "is not a private key, or is damaged", _MAKE_ONE) from None
    if not isinstance(key, Ed25519PrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey").strip("_")
        raise InputError(str(path), f"is a key of another kind ({kind}); packages are signed with Ed25519", _MAKE_ONE)
    return key


def read_public_keys(path: Path) -> list[bytes]:
    """The trusted keys (32 bytes each): public keys in OpenSSH's format, one per line, or one in PEM.

    Lines of ``authorized_keys`` and of ``ssh-keygen``'s allowed signers are accepted; other fields are ignored.

    Raises:
        InputError: it cannot be read, or has no public key, another kind of key, or a private key.
    """
    data = _read(path)
    if b"PRIVATE KEY" in data:
        raise InputError(str(path), "is a private key, but verification needs the public key", _GIVE_PUBLIC)
    if b"BEGIN PUBLIC KEY" in data:
        return [_from_pem(data, path)]
    lines = data.decode("utf-8", "replace").splitlines()
    keys = [
        _from_line(line, f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not keys:
        raise InputError(str(path), "has no public key", _GIVE_PUBLIC)
    return keys


def name_of(key: bytes) -> str:
    """A key's fingerprint as OpenSSH writes it (``SHA256:…``)."""
    digest = base64.b64encode(bytes.fromhex(digest_bytes(ssh_form(key)))).decode().rstrip("=")
    return f"SHA256:{digest}"


def ssh_form(key: bytes) -> bytes:
    """A public key in the form of RFC 4253: its kind and its bytes."""
    return ssh_string(ED25519.encode()) + ssh_string(key)


def ssh_string(data: bytes) -> bytes:
    """A string of RFC 4251: length, then content."""
    return len(data).to_bytes(4, "big") + data


def _read(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(str(path), "no such key file", _MAKE_ONE) from None
    except OSError as error:
        raise unreadable_error(path, error) from None
    if len(data) > MOST_BYTES:
        raise InputError(str(path), f"is not a key: larger than {MOST_BYTES >> 20} MiB")
    return data


def _from_pem(data: bytes, path: Path) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(str(path), "is not a public key, or is damaged", _GIVE_PUBLIC) from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(str(path), "is a key of another kind; packages are signed with Ed25519", _MAKE_ONE)
    return key.public_bytes_raw()


def _from_line(line: str, where: str) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    match = _SSH_KEY.search(line)
    if match is None:
        raise InputError(where, "is not a public key", _GIVE_PUBLIC)
    kind, text = match.groups()
    if kind != ED25519:
        raise InputError(
            where, f"is a key of another kind ({kind[:40]}); packages are signed with {ED25519}", _MAKE_ONE
        )
    try:
        key = load_ssh_public_key(f"{kind} {text}".encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(where, "is a damaged public key", _GIVE_PUBLIC)
    return key.public_bytes_raw()
