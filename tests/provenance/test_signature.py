"""Signatures: the same as OpenSSH's, by the right key only, and never part of the package."""

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.provenance.examples import sign
from tvmake.errors import InputError
from tvmake.provenance.check import check_package, to_sign
from tvmake.provenance.keys import read_private_key, read_public_keys
from tvmake.provenance.origin import origin_file
from tvmake.provenance.signature import NAMESPACE, check, signature_file


def ssh_keygen(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *map(str, arguments)], input=given, capture_output=True, check=False)


def test_signing_leaves_the_package_alone_and_repeats_itself(package: Path, ssh_keys: Path):
    before = package.read_bytes()
    sign(package, ssh_keys / "own")
    first = signature_file(package).read_bytes()
    sign(package, ssh_keys / "own")
    assert package.read_bytes() == before
    assert signature_file(package).read_bytes() == first


def test_openssh_makes_the_very_same_signature(package: Path, ssh_keys: Path):
    sign(package, ssh_keys / "own")
    ours = signature_file(package).read_bytes()
    signature_file(package).unlink()
    done = ssh_keygen("-Y", "sign", "-n", NAMESPACE, "-f", ssh_keys / "own", package)
    assert done.returncode == 0, done.stderr
    assert signature_file(package).read_bytes() == ours


def test_openssh_accepts_what_tvmake_signs(package: Path, ssh_keys: Path, tmp_path: Path):
    sign(package, ssh_keys / "own")
    allowed = tmp_path / "allowed"
    allowed.write_text(f"me@example.org {(ssh_keys / 'own.pub').read_text()}")
    command = ("-Y", "verify", "-n", NAMESPACE, "-f", allowed, "-I", "me@example.org", "-s", signature_file(package))
    assert ssh_keygen(*command, given=package.read_bytes()).returncode == 0
    assert ssh_keygen(*command, given=package.read_bytes() + b"!").returncode != 0


def test_a_key_with_a_passphrase_signs_through_openssh_and_is_refused_here_with_the_command(
    package: Path, ssh_keys: Path, tmp_path: Path
):
    with pytest.raises(InputError, match=r"protected by a passphrase(?s:.*)ssh-keygen -Y sign -n tvmake-package"):
        sign(package, ssh_keys / "locked")
    unlocked = tmp_path / "unlocked"
    unlocked.write_bytes((ssh_keys / "locked").read_bytes())
    unlocked.chmod(0o600)
    assert ssh_keygen("-p", "-q", "-P", "secret words", "-N", "", "-f", unlocked).returncode == 0
    assert ssh_keygen("-Y", "sign", "-n", NAMESPACE, "-f", unlocked, *to_sign(package)).returncode == 0
    assert check_package(package, ssh_keys / "locked.pub").is_trusted


def test_pem_keys_work_and_name_the_same_key(package: Path, tmp_path: Path):
    private = Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.public_key()
    (tmp_path / "pub.pem").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "pub").write_bytes(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    signed = sign(package, tmp_path / "key.pem")
    assert read_public_keys(tmp_path / "pub.pem") == read_public_keys(tmp_path / "pub") == [signed.key]
    assert check_package(package, tmp_path / "pub.pem").is_trusted
    encrypted = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (tmp_path / "locked.pem").write_bytes(encrypted)
    with pytest.raises(InputError, match="passphrase"):
        sign(package, tmp_path / "locked.pem")


def test_one_of_several_keys_is_enough_in_every_form_of_list(package: Path, ssh_keys: Path, tmp_path: Path):
    sign(package, ssh_keys / "own")
    own, other = ((ssh_keys / f"{name}.pub").read_text() for name in ("own", "other"))
    several = tmp_path / "several"
    several.write_text(f'# the team\n{other}\nme@x namespaces="{NAMESPACE}" {own}\n')
    assert check_package(package, several).is_trusted


def test_a_signature_by_another_key_is_refused(package: Path, ssh_keys: Path):
    sign(package, ssh_keys / "other")
    with pytest.raises(InputError, match=r"belongs to another key \(SHA256:.*\) than the trusted one"):
        check_package(package, ssh_keys / "own.pub")
    unknown = check_package(package, require_signature=True)
    assert unknown.signed is not None
    assert not unknown.is_trusted


def test_a_package_without_a_signature_is_refused_where_one_is_asked_for(package: Path, ssh_keys: Path):
    assert check_package(package).signed is None
    for asked in ({"key": ssh_keys / "own.pub"}, {"require_signature": True}):
        with pytest.raises(InputError, match="is not signed"):
            check_package(package, **asked)


def test_where_a_package_came_from_is_signed_with_it(package: Path, ssh_keys: Path):
    sign(package, ssh_keys / "own")
    both = check_package(package, ssh_keys / "own.pub")
    assert both.signed == both.source_signed is not None
    beside = origin_file(package)
    said = beside.read_bytes()
    beside.write_bytes(said + b"\n")
    with pytest.raises(InputError, match=r"does not match package\.provenance\.json"):
        check_package(package, ssh_keys / "own.pub")
    beside.write_bytes(said)
    signature_file(beside).unlink()
    with pytest.raises(InputError, match=r"package\.provenance\.json: is not signed"):
        check_package(package, ssh_keys / "own.pub")
    assert check_package(package).source_signed is None
    beside.unlink()  # the package by itself is as good as before
    assert check_package(package, ssh_keys / "own.pub").is_trusted


def test_a_signature_for_another_purpose_does_not_count(package: Path, ssh_keys: Path):
    assert ssh_keygen("-Y", "sign", "-n", "git", "-f", ssh_keys / "own", package).returncode == 0
    with pytest.raises(InputError, match="for another purpose"):
        check_package(package, ssh_keys / "own.pub")


def test_a_signature_by_another_kind_of_key_is_refused(package: Path, ssh_keys: Path):
    assert ssh_keygen("-Y", "sign", "-n", NAMESPACE, "-f", ssh_keys / "rsa", package).returncode == 0
    with pytest.raises(InputError, match=r"key of another kind \(ssh-rsa\)"):
        check_package(package)


def test_a_signature_of_another_package_is_refused(package: Path, ssh_keys: Path):
    sign(package, ssh_keys / "own")
    with package.open("ab") as file:
        file.write(bytes(512))
    with pytest.raises(InputError, match=r"does not match package\.tar"):
        check(package, signature_file(package))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("own.pub", "is a public key, but signing needs the private key"),
        ("rsa", "of another kind"),
        ("ecdsa", "of another kind"),
        ("absent", "no such key file"),
        (".", "cannot be read"),
    ],
)
def test_keys_that_cannot_sign_are_named(ssh_keys: Path, name: str, problem: str):
    with pytest.raises(InputError, match=problem):
        read_private_key(ssh_keys / name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("own", "is a private key, but verification needs the public key"),
        ("rsa.pub", r"of another kind \(ssh-rsa\)"),
        ("ecdsa.pub", r"of another kind \(ecdsa-sha2-nistp256\)"),
        ("absent", "no such key file"),
        (".", "cannot be read"),
    ],
)
def test_keys_that_cannot_be_trusted_are_named(ssh_keys: Path, name: str, problem: str):
    with pytest.raises(InputError, match=problem):
        read_public_keys(ssh_keys / name)


def test_a_directory_in_the_signatures_place_is_named(package: Path, ssh_keys: Path):
    signature_file(package).mkdir()
    with pytest.raises(InputError, match="is a directory"):
        sign(package, ssh_keys / "own")
    with pytest.raises(InputError, match="cannot be read"):
        check_package(package)


@settings(max_examples=100)
@given(st.data())
def test_damaged_keys_are_refused_without_a_traceback(ssh_keys: Path, tmp_path: Path, data: st.DataObject):
    name = data.draw(st.sampled_from(["own", "own.pub", "locked", "rsa"]))
    content = bytearray((ssh_keys / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    (tmp_path / "key").write_bytes(content)
    for read in (read_private_key, read_public_keys):
        try:
            read(tmp_path / "key")
        except InputError:
            continue


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_signature_is_refused_or_says_the_same(package: Path, ssh_keys: Path, data: st.DataObject):
    signed = sign(package, ssh_keys / "own")
    content = bytearray(signature_file(package).read_bytes())
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    signature_file(package).write_bytes(content)
    try:
        # What is altered around the signature, a line break say, alters nothing.
        assert check(package, signature_file(package)) == signed
    except InputError:
        return
