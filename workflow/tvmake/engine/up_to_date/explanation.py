"""Explain a file: the job that makes it, its inputs, and its state."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvmake.cache.line import read_lines
from tvmake.config.root import Config
from tvmake.engine.progress.job_log import failure_lines
from tvmake.engine.up_to_date.job_states import JobState, job_states
from tvmake.engine.up_to_date.scope import jobs_of
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.errors import InputError
from tvmake.plan.outputs import Recognised, recognise
from tvmake.plan.plan import Plan, Variant
from tvmake.report.history import DIRECTORY as HISTORY
from tvmake.stages.registry import RESOLVED_CONFIG
from tvmake.stages.registry import path as artifact_path
from tvmake.storage.notes.job_records import JobRecord, record_of

PACKAGE = "package.tar"


@dataclass(frozen=True)
class Explanation:
    """Facts about a file."""

    file: str
    sha256: str | None
    """None if it does not exist or cannot be read."""
    bytes: int
    state: JobState
    """State of the job that makes it."""
    record: JobRecord | None
    """Record of the run that made it; None if there is none."""
    inputs: Mapping[str, str | None]
    """The job's inputs with their digests at that time; None if an input changed meanwhile or nothing is recorded."""
    is_from_cache: bool
    failure: tuple[str, ...]
    """The error in the log of a failed job."""

    def verdict(self) -> str:
        """The state of the file in words."""
        state = self.state
        if state.state == "made":
            return "up to date"
        if state.state == "running":
            return "its job is running"
        if state.state == "failed":
            return f"{state.job.stage} failed; `tvmake make` tries again"
        if state.changes:
            return "`tvmake make` rebuilds it" if self.sha256 else "`tvmake make` makes it"
        return "`tvmake make` rebuilds it if its inputs change: they are made first"


def explain_file(plan: Plan, typed: str, path: str) -> Explanation:
    """Explain a file.

    Args:
        plan: the config's plan.
        typed: a variant, or the file as typed.
        path: the file relative to the project's directory.

    Raises:
        InputError: no job makes it.
    """
    variant = next((variant for variant in plan.variants if str(variant) == typed), None)
    if variant is not None:
        path = plan.file(PACKAGE, variant)
    recognised = _recognise_path(path, plan.config)
    if Path(path).parent == Path(plan.config.results) / HISTORY:
        raise InputError(typed, "no job makes it: every report keeps its summary there for comparisons")
    if recognised is None:
        raise InputError(
            typed,
            "no job makes such a file",
            f"name a file in {plan.config.results}/ or {plan.config.logs}/, or a variant, for example {plan.variants[0]}",
        )
    if recognised.artifact == RESOLVED_CONFIG.artifact:
        raise InputError(typed, "no job makes it: every run writes the resolved config there")
    variants = _related_variants(plan, recognised)
    jobs = jobs_of(plan, variants)
    artifact = _path_of(plan, recognised)
    job = next((job for job in jobs if artifact in job.outputs), None)
    if job is None:
        raise InputError(typed, _why_unknown(plan, recognised), "`tvmake check --files` lists all files of the config")
    state = next(state for state in job_states(jobs) if state.job is job)
    file = Path(path)
    record = record_of(job.outputs)
    return Explanation(
        file=path,
        sha256=_digest(file),
        bytes=file.stat().st_size if file.is_file() else 0,
        state=state,
        record=record,
        inputs={name: digest or None for name, digest in record.inputs.items()}
        if record
        else dict.fromkeys(job.inputs),
        is_from_cache=_is_from_cache(Path(job.log)),
        failure=tuple(failure_lines(Path(job.log))) if state.state == "failed" else (),
    )


def _recognise_path(path: str, config: Config) -> Recognised | None:
    """Recognise a path, or a directory above it that is an artifact as a whole."""
    for candidate in (Path(path), *Path(path).parents):
        if recognised := recognise(str(candidate), config) or recognise(str(candidate.absolute()), config):
            return recognised
    return None


def _path_of(plan: Plan, recognised: Recognised) -> str:
    return artifact_path(recognised.artifact, plan.config.results, **recognised.wildcards)


def _related_variants(plan: Plan, recognised: Recognised) -> tuple[Variant, ...]:
    """The variants whose jobs the file's job may depend on: those of its target or model."""
    target, model = recognised.wildcards.get("target"), recognised.wildcards.get("model")
    return tuple(
        variant
        for variant in plan.variants
        if (target is None or variant.target == target) and (target is not None or model in (None, variant.model))
    )


def _why_unknown(plan: Plan, recognised: Recognised) -> str:
    known = {
        "model": plan.config.networks,
        "group": plan.config.models,
        "precision": {variant.precision for variant in plan.variants},
        "target": plan.config.targets,
    }
    for kind, names in known.items():
        name = recognised.wildcards.get(kind)
        if name is not None and name not in names:
            return f"the config has no {kind} '{name}'"
    return "the config does not need it"


def _digest(file: Path) -> str | None:
    try:
        return known_digests().digest(file) if file.exists() else None
    except OSError:
        return None


def _is_from_cache(log: Path) -> bool:
    try:
        return any(line.cache == "hit" for line in read_lines(log.read_text()))
    except (OSError, UnicodeDecodeError):
        return False
