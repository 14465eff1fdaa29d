"""The files of a run that must come out the same again, and where two versions of one differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tvmake.errors import InputError
from tvmake.lock.document import LockedArtifact
from tvmake.plan.plan import Plan
from tvmake.stages.descriptor import Output
from tvmake.stages.registry import goal_stages, stages
from tvmake.storage.files import canonical_json, digest_bytes, digest_file
from tvmake.storage.tar import read_tar

SEALS = ("own_sha256", "serialNumber", "mod.json")
"""Keys and members that differ only because another one does; mod.json is compared by itself as well."""


@dataclass(frozen=True)
class HermeticFile:
    """A file that a hermetic stage writes."""

    stage: str
    path: Path
    has_parts: bool = False
    """Whether a lock records digests of its parts too."""


@dataclass(frozen=True)
class Mismatch:
    """A file that differs from the lock."""

    stage: str
    path: str
    """Below the results directory."""
    how: str
    """``differs in …``, ``is missing``, ``is not in the lock``."""


def hermetic_files(plan: Plan) -> Iterator[HermeticFile]:
    """The outputs of a plan's hermetic stages, in the order of the pipeline; directories file by file.

    Missing files are included.
    """
    for stage, output, name in hermetic_outputs(plan):
        path = Path(name)
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
            yield from (HermeticFile(stage, file) for file in files)
        else:
            yield HermeticFile(stage, path, output.has_parts)


def lock_file(file: HermeticFile, results: Path) -> LockedArtifact:
    """A file's entry in a lock.

    Raises:
        InputError: it is not there.
    """
    if not file.path.is_file():
        raise InputError(str(file.path), "is not built yet", "run `tvmake make` first")
    return LockedArtifact(
        stage=file.stage,
        path=str(file.path.relative_to(results)),
        sha256=digest_file(file.path),
        parts=parts(file.path) if file.has_parts else None,
    )


def mismatches(plan: Plan, entries: list[LockedArtifact]) -> list[Mismatch]:
    """The plan's files that differ from a lock, in the order of the pipeline."""
    results = Path(plan.config.results)
    mismatches = []
    for entry in entries:
        path = results / entry.path
        if not path.is_file():
            mismatches.append(Mismatch(entry.stage, entry.path, "is missing"))
        elif digest_file(path) != entry.sha256:
            mismatches.append(Mismatch(entry.stage, entry.path, _difference(path, entry)))
    locked_paths = {entry.path for entry in entries}
    for file in hermetic_files(plan):
        name = str(file.path.relative_to(results))
        if name not in locked_paths and file.path.is_file():
            mismatches.append(Mismatch(file.stage, name, "is not in the lock"))
    return mismatches


def parts(path: Path) -> dict[str, str]:
    """Digests of a tar's members, or of a JSON object's values; none of anything else."""
    if path.suffix == ".tar":
        return _members(path)
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: digest_bytes(canonical_json(entry).encode()) for key, entry in value.items()}


def _difference(path: Path, entry: LockedArtifact) -> str:
    try:
        present, recorded = parts(path) if entry.parts else {}, entry.parts or {}
    except InputError as error:
        return f"is damaged: {error.problem}"
    changed = [name for name in {**present, **recorded} if present.get(name) != recorded.get(name)]
    named = [name for name in changed if name not in SEALS] or changed
    if not named:
        return "differs"
    what = "member" if path.suffix == ".tar" else "key"
    more = f", and {len(named) - 1} more" if len(named) > 1 else ""
    return f"differs in {what} {named[0]}{more}"


def _members(path: Path) -> dict[str, str]:
    digests = {}
    for member in read_tar(path, "package", "rebuild it with `tvmake make`", nested=True):
        digest = sha256()
        while block := member.read(1 << 20):
            digest.update(block)
        digests[member.name] = digest.hexdigest()
    return digests


def hermetic_outputs(plan: Plan) -> Iterator[tuple[str, Output, str]]:
    """Stage, output and path, ordered by stage, so that the first difference is the earliest."""
    for stage in stages().values():
        if stage.is_hermetic and stage.name in goal_stages():
            for path, output in plan.outputs_of_stage(stage).items():
                if output.is_locked:
                    yield stage.name, output, path
