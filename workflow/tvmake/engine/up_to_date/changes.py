"""Determine why a job would run again: differences from the record of its last run, with old and new values.

Digests of code are split into modules and library versions, options into config keys.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job
from tvmake.stages.registry import stage_named
from tvmake.storage.notes.job_records import JobRecord, code_listing, record_file, record_of

Kind = Literal["missing", "altered", "option", "code", "source", "input", "unknown"]

SHORT = 12
"""Characters of a digest that are shown."""

LINE = 100
"""Maximum characters for a key with both values in full."""

VALUE = 36
"""Characters shown of a longer value."""

BEFORE = 8
"""Characters shown before the first difference."""

OWNERS = {"target": ("targets", "target_name"), "device": ("devices", "device_name")}
"""Parts of a request that are in the config under a name that another field gives."""

SECTIONS = {
    "measurement": "benchmark", "search": "tuning", "measure": "tuning.measure", "self_test": "export.self_test",
    "why_not": "export.self_test",
}  # fmt: skip
"""Parts of a request that have another name in the config."""


@dataclass(frozen=True)
class Change:
    """One difference."""

    kind: Kind
    what: str
    """A file, a key of the config, a module or a library."""
    before: str | None = None
    """None if it did not exist."""
    after: str | None = None

    def __str__(self) -> str:
        """The change in one line; long values are shortened to the part that differs."""
        if self.kind == "missing":
            return f"{self.what} {'was removed' if self.before else 'is not made yet'}"
        if self.kind == "altered":
            return f"{self.what} was altered: {self.before} → {self.after}"
        if self.before is None and self.after is None:
            return self.what
        if self.kind == "input" and None in (self.before, self.after):
            return f"{'reads' if self.before is None else 'no longer reads'} {self.what}"
        return _format_change(self.what, self.before or "not there", self.after or "not there")


def _format_change(what: str, before: str, after: str) -> str:
    """A key with its values before and after; of long values the part that differs."""
    if len(whole := f"{what}: {before} → {after}") <= LINE:
        return whole
    start = max(
        0,
        next((index for index, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), 0) - BEFORE,
    )
    return f"{what}: {_part(before, start)} → {_part(after, start)}"


def _part(text: str, start: int) -> str:
    begin = max(0, min(start, len(text) - VALUE))
    part = text[begin : begin + VALUE]
    return f"{'…' if begin else ''}{part}{'…' if begin + VALUE < len(text) else ''}"


def changes(job: Job) -> list[Change]:
    """Return the differences from a job's last run; none if its own results are up to date.

    Jobs before it, which may change its inputs, are not considered.
    """
    if missing := [name for name in job.outputs if not os.path.exists(name)]:  # noqa: PTH110  # of thousands
        return [Change("missing", name, before="there" if record_file(name).exists() else None) for name in missing]
    record = record_of(job.outputs)
    if record is None:
        return [Change("unknown", "it has no job record")]
    differences = [
        Change("altered", name, short(record.outputs[name]), _digest_text(name)) for name in altered_results(record)
    ]
    return [*differences, *_of_code(job, record), *_of_options(job, record), *_of_inputs(job, record)]


def altered_results(record: JobRecord) -> list[str]:
    """Outputs of a job that exist and were altered since."""
    digests = known_digests()
    return [
        name
        for name, digest in record.outputs.items()
        if not digests.has(name, digest) and os.path.exists(name)  # noqa: PTH110  # of tens of thousands
    ]


def _digest_text(name: str) -> str:
    """A file's digest for messages."""
    try:
        return short(known_digests().digest(name))
    except OSError as error:
        return f"cannot be read ({(error.strerror or str(error)).lower()})"


def short(digest: str) -> str:
    """The first characters of a digest."""
    return digest[:SHORT]


def _of_inputs(job: Job, record: JobRecord) -> Iterator[Change]:
    digests = known_digests()
    names = {name if name in record.inputs else str(Path(name)): name for name in job.inputs}
    for known, name in names.items():
        if name in job.untimed:
            continue
        kind: Kind = "source" if name in job.sources else "input"
        if known not in record.inputs:
            yield Change(kind, name, None, "there")
        elif digests.has(name, record.inputs[known]):
            continue
        elif os.path.lexists(name):
            yield Change(kind, name, short(record.inputs[known]), _digest_text(name))
        elif kind == "source":
            yield Change(kind, name, short(record.inputs[known]), None)
    for known in record.inputs:
        if known not in names:
            yield Change("input", known, "there", None)


def listing_now(job: Job) -> dict[str, str]:
    """Modules and library versions in a job's fingerprint."""
    from tvmake.storage.code_fingerprint import parts

    stage = stage_named(job.stage)
    request = stage.request_model.model_validate_json(job.options) if stage.request_model and job.options else None
    return parts(*stage.roots(request))


def _of_code(job: Job, record: JobRecord) -> Iterator[Change]:
    if job.fingerprint == record.code:
        return
    # Thousands of jobs have the same two fingerprints.
    versions = record.code, job.fingerprint
    if versions not in _CODE_CHANGES:
        _CODE_CHANGES[versions] = tuple(_compare_code(code_listing(record.code), job))
    yield from _CODE_CHANGES[versions]


_CODE_CHANGES: dict[tuple[str, str], tuple[Change, ...]] = {}
"""Differences of the code by the fingerprints before and now."""


def _compare_code(before: Mapping[str, str] | None, job: Job) -> Iterator[Change]:
    if before is None:
        yield Change("code", "tvmake's code or its libraries changed; the previous version is not known")
        return
    now = listing_now(job)
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old != new:
            yield Change("code", name, old and short(old), new and short(new))


def _of_options(job: Job, record: JobRecord) -> Iterator[Change]:
    """Yield the keys whose values differ, by their names in the config."""
    for name in sorted({*job.parameters, *record.parameters}):
        value = job.parameters.get(name)
        before, now = record.parameters.get(name), None if value is None else str(value)
        if before != now:
            yield Change("option", name, before, now)
    if job.options == record.options:
        return
    stage = stage_named(job.stage)

    def full(text: str) -> dict[str, Any]:
        """A request with its defaults, which are omitted in transit; unchanged if another version wrote it."""
        try:
            assert stage.request_model is not None
            values = stage.request_model.model_validate_json(text).model_dump(mode="json")
        except (ValueError, AssertionError):
            values = json.loads(text or "{}")
        return values if isinstance(values, dict) else {}

    old, new = full(record.options), full(job.options)
    names = {**new, "model": job.wildcards.get("model"), "precision": job.wildcards.get("precision")}
    for path, (before, now) in sorted(_differences(old, new).items()):
        yield Change("option", config_key(job.stage, path, names), _text(before), _text(now))


def config_key(stage: str, path: tuple[str, ...], names: Mapping[str, Any]) -> str:
    """The config key of a field of a stage's request.

    Args:
        stage: the stage's name.
        path: the field.
        names: fields of the same request that name targets and devices, and the job's model and precision.
    """
    first, *rest = path
    if first in OWNERS:
        section, name = OWNERS[first]
        return ".".join((section, str(names[name]), *rest))
    if first == "cpu":
        return "this machine's CPU"
    runs_original = stage in ("reference", "self_test")
    if stage == "import" or (runs_original and first == "model"):
        return ".".join(("models", str(names["model"]), *(rest if runs_original else path)))
    if runs_original and first != "self_test":
        section = f"models.{names['model']}" if first == "dataset" else "validation"
        return ".".join((section, *path))
    if stage == "transform" and first == "precision":
        return ".".join(("precisions", str(names["precision"]), *rest))
    return ".".join((SECTIONS.get(first, first), *rest))


def _differences(old: Any, new: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], tuple[Any, Any]]:
    if old == new:
        return {}
    differences: dict[tuple[str, ...], tuple[Any, Any]] = {}
    if all(value is None or isinstance(value, dict) for value in (old, new)):
        before, after = old or {}, new or {}
        for name in {*before, *after}:
            differences |= _differences(before.get(name), after.get(name), (*path, str(name)))
    return differences or {path: (old, new)}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
