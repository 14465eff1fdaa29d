"""The files of a run that must come out the same again, and where two versions of one differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tvmake.artifact.files import canonical_json, digest_bytes, digest_file
from tvmake.artifact.plain_tar import read_tar
from tvmake.errors import InputError
from tvmake.lock.document import LockedArtifact
from tvmake.plan import layout
from tvmake.plan.plan import Plan

TAKEN_APART = (
    "signature",
    "source",
    "bound_signature",
    "tasks",
    "best",
    "manifest",
    "package",
    "provenance",
    "components",
)
"""Artifacts whose parts have names that say something; a network's JSON is one long list of nodes."""

SEALS = ("own_sha256", "serialNumber")
"""Keys that differ because another one does."""


@dataclass(frozen=True)
class Made:
    """A file that a hermetic stage makes."""

    stage: str
    path: Path
    is_taken_apart: bool = False


@dataclass(frozen=True)
class Mismatch:
    """A file that is not what the lock says."""

    stage: str
    path: str
    """Below the results directory."""
    how: str
    """``differs in …``, ``is missing``, ``is not in the lock``."""


def made_files(plan: Plan) -> Iterator[Made]:
    """What a plan's hermetic stages have made, in the order of the pipeline; directories file by file.

    A file that is not there is named all the same.
    """
    seen: set[Path] = set()
    for stage, artifact, name in named_files(plan):
        path = Path(name)
        if path in seen:
            continue
        seen.add(path)
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
            yield from (Made(stage, file) for file in files)
        else:
            yield Made(stage, path, artifact in TAKEN_APART)


def locked(made: Made, results: Path) -> LockedArtifact:
    """A file's entry in a lock.

    Raises:
        InputError: it is not there.
    """
    if not made.path.is_file():
        raise InputError(str(made.path), "is not made yet", "run `tvmake make` first")
    return LockedArtifact(
        stage=made.stage,
        path=str(made.path.relative_to(results)),
        sha256=digest_file(made.path),
        parts=parts(made.path) if made.is_taken_apart else None,
    )


def mismatches(plan: Plan, wanted: list[LockedArtifact]) -> list[Mismatch]:
    """Where the plan's files are not what a lock says, in the order of the pipeline."""
    results = Path(plan.config.results)
    found = []
    for entry in wanted:
        path = results / entry.path
        if not path.is_file():
            found.append(Mismatch(entry.stage, entry.path, "is missing"))
        elif digest_file(path) != entry.sha256:
            found.append(Mismatch(entry.stage, entry.path, _difference(path, entry)))
    known = {entry.path for entry in wanted}
    for made in made_files(plan):
        path = str(made.path.relative_to(results))
        if path not in known and made.path.is_file():
            found.append(Mismatch(made.stage, path, "is not in the lock"))
    return found


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
        now, then = parts(path) if entry.parts else {}, entry.parts or {}
    except InputError as error:
        return f"is damaged: {error.problem}"
    other = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    telling = [name for name in other if name not in SEALS] or other
    if not telling:
        return "differs"
    what = "member" if path.suffix == ".tar" else "key"
    more = f", and {len(telling) - 1} more" if len(telling) > 1 else ""
    return f"differs in {what} {telling[0]}{more}"


def _members(path: Path) -> dict[str, str]:
    found = {}
    for member in read_tar(path, "package", "make it again with `tvmake make`"):
        digest = sha256()
        while block := member.read(1 << 20):
            digest.update(block)
        found[member.name] = digest.hexdigest()
    return found


def named_files(plan: Plan) -> Iterator[tuple[str, layout.Artifact, str]]:
    """Stage, artifact and path; stage after stage, so that the first difference is the earliest."""
    variants = plan.variants
    for model in dict.fromkeys(variant.model for variant in variants):
        for artifact in ("imported_module", "imported_params", "signature", "source"):
            yield "import", artifact, plan.file(artifact, model=model)
    for variant in variants:
        if plan.chooses_layout(variant):
            for artifact in ("candidate_module", "candidate_params", "candidate_signature"):
                yield from (("transform", artifact, file) for file in plan.candidates(artifact, variant))
        else:
            for artifact in ("module", "params", "bound_signature"):
                yield "transform", artifact, plan.file(artifact, variant)
    for variant in variants:
        if plan.chooses_layout(variant):
            for artifact in ("chosen_module", "chosen_params", "chosen_signature"):
                yield "choose_layout", artifact, plan.file(artifact, variant)
    tuned = [variant for variant in variants if plan.is_tuned(variant)]
    for variant in tuned:
        yield from (("extract", artifact, plan.file(artifact, variant)) for artifact in ("tasks", "workloads"))
    for variant in tuned:
        yield "pick_best", "best", plan.file("best", variant)
    for variant in variants:
        for artifact in ("lib", "manifest", "weights", "sources"):
            yield "build", artifact, plan.file(artifact, variant)
    for variant in variants:
        yield "export", "package", plan.file("package", variant)
    for variant in variants:
        yield from (("attest", artifact, plan.file(artifact, variant)) for artifact in ("provenance", "components"))
