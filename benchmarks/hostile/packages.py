"""Packages, with the files beside them, for `tvmake verify` and the deploy stage."""

import io
import json
import random
import shutil
import sys
import tarfile
from pathlib import Path

from .cases import Case
from .mutate import dumps, mutate_bytes, mutate_json

PACKAGE = "package.tar"


class Packages:
    """Bytes of the archive, its members, a second archive after it, and what lies beside it."""

    preload = (
        "tvmake.cli.app",
        "tvmake.provenance.check",
        "tvmake.device.connect",
        "tvmake.device.store",
        "tvmake.running.package",
    )

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tests.provenance.examples import make_library, make_package

        make_package(samples / PACKAGE, make_library(samples), target={"kind": "llvm"})

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        beside = sorted(file for file in samples.iterdir() if file.name.startswith("package."))
        for file in beside:
            shutil.copy(file, directory)
        sound = (samples / PACKAGE).read_bytes()
        how = chance.choice(("bytes", "bytes", "bytes", "end", "members", "manifest", "beside"))
        package = directory / PACKAGE
        match how:
            case "bytes":
                package.write_bytes(mutate_bytes(sound, chance))
            case "end":
                package.write_bytes(
                    sound + chance.choice((b"\0", bytes(512), bytes(10240), b"x", sound, chance.randbytes(900)))
                )
            case "members":
                package.write_bytes(_with_members(sound, chance))
            case "manifest":
                package.write_bytes(_with_manifest(sound, chance))
            case "beside":
                file = directory / chance.choice([file.name for file in beside if file.name != PACKAGE])
                content = file.read_bytes()
                is_json = chance.random() < 0.5
                file.write_bytes(
                    dumps(mutate_json(json.loads(content), chance)) if is_json else mutate_bytes(content, chance)
                )

        def wrong() -> str | None:
            return None if package.read_bytes() == sound else "an altered package was accepted"

        receipt = ["--receipt", "receipt.json"]
        commands = [["verify", PACKAGE], ["step", "deploy", PACKAGE, "--options", "{}", *receipt], _opened]
        chance.shuffle(commands)
        return Case(how, commands, wrong, ("receipt.json", ".snakemake/"))


def _opened() -> int:
    """As :func:`tvmake.open` does."""
    import tvmake
    from tvmake.errors import TvmakeError

    try:
        tvmake.open(PACKAGE)
    except TvmakeError as error:
        print(f"error: {error}".splitlines()[0], file=sys.stderr)
        return 1
    return 0


def members_of(archive: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Every member of a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return [(member, opened.extractfile(member).read()) for member in opened]  # type: ignore[union-attr]


def archived(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A tar archive."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def _with_members(sound: bytes, chance: random.Random) -> bytes:
    members = members_of(sound)
    index = chance.randrange(len(members))
    member, content = members[index]
    match chance.randrange(6):
        case 0:
            member.name = chance.choice(("../outside/x", "/tmp/x", ".hidden", "a/b", "mod.so\n", "x" * 90))
        case 1:
            member.type = chance.choice(
                (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
            )
            member.linkname = "../outside/x"
            content = b""
        case 2:
            del members[index]
            return archived(members)
        case 3:
            members.insert(
                chance.randrange(len(members) + 1), (tarfile.TarInfo(chance.choice(("extra", "mod.so"))), b"x")
            )
            return archived(members)
        case 4:
            setattr(member, chance.choice(("mode", "uid", "gid", "mtime")), chance.choice((1, 0o4755, 0o777)))
        case 5:
            content = mutate_bytes(content, chance)
    members[index] = (member, content)
    return archived(members)


def _with_manifest(sound: bytes, chance: random.Random) -> bytes:
    """Another manifest, which is not sealed again: a forged one that fits its digests is its author's package."""
    members = members_of(sound)
    for index, (member, content) in enumerate(members):
        if member.name == "mod.json":
            changed = dumps(mutate_json(json.loads(content), chance))
            if chance.random() < 0.2:  # made of mistakes
                changed = b'{"kernels":[' + b",".join([chance.choice((b"{}", b"0", b"[]"))] * 1_000_000) + b"]}"
            members[index] = (member, changed)
    return archived(members)
