"""Bundles for `tvmake bundle import`: nothing is written except the files of a sound bundle."""

import hashlib
import json
import random
import shutil
import tarfile
from pathlib import Path

from .cases import Case
from .locked_run import locked_run
from .mutate import CODE, mutate_bytes
from .packages import archived, members_of

NAMES = (
    "inputs/.bashrc",
    "inputs/profiles/default/config.yaml",
    "profiles/default/config.yaml",
    "packages/.hidden/package.tar",
    "packages/a/b/c/sitecustomize.py",
    "packages/../../outside",
    "inputs/../outside",
    "inputs/Snakefile",
    "inputs/.snakemake/x",
    "inputs/sitecustomize.py",
    "inputs/run.lock",
    "tvmake.yaml",
    "workflow.py",
)


class Bundles:
    """Bytes of the archive, and members that a bundle must not have, with a list of contents that names them."""

    preload = ("tvmake.cli.app", "tvmake.bundle.read", "tvmake.records.store")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tvmake.bundle.write import write_bundle

        with locked_run(samples) as (plan, lock):
            write_bundle(plan, lock, samples / "sound.tar", with_inputs=True)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        sound = (samples / "sound.tar").read_bytes()
        names = {name.removeprefix("inputs/") for name in (member.name for member, _ in members_of(sound))}
        if chance.random() < 0.5:
            how, data = "bytes", mutate_bytes(sound, chance)
        else:
            how, data = _forged(sound, chance)
        (directory / "b.tar").write_bytes(data)
        into = directory / "into"

        def wrong() -> str | None:
            placed = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}
            if extra := sorted(placed - names):
                return f"placed {extra[0]}"
            if data != sound and how != "forged input":
                return "an altered bundle was accepted"
            shutil.rmtree(into)
            return None

        return Case(how, [["bundle", "import", "b.tar", "--into", "into"]], wrong, ("into/",))


def _forged(sound: bytes, chance: random.Random) -> tuple[str, bytes]:
    members = members_of(sound)
    name, content = chance.choice(NAMES), CODE.encode()
    contents = next(member for member in members if member[0].name == "bundle.json")
    members = [member for member in members if member[0].name not in (name, "bundle.json")]
    members.append((tarfile.TarInfo(name), content))
    is_declared = chance.random() < 0.7
    if is_declared:
        listed = json.loads(contents[1])
        listed["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        contents = (contents[0], json.dumps(listed).encode())
    members.sort(key=lambda member: member[0].name)
    data = archived([contents, *members])
    return f"{'declared' if is_declared else 'undeclared'} {name}", data
