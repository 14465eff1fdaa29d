"""Why a job would run again: what differs from what its results were made of, with the values before and after.

Snakemake compares a job's parameters, its inputs and its rule with what it noted when the job ran. The same is compared here, by the
same notes, and taken apart: a digest of code into modules and library versions, one of sources into files, options into keys.
"""

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tvmake.engine.up_to_date.metadata import FinishedJob, finished_job
from tvmake.engine.up_to_date.shortened import shortened
from tvmake.engine.up_to_date.sources import Sources, known_digests
from tvmake.plan.plan import Job
from tvmake.stages.registry import stage_named
from tvmake.storage.notes.job_records import has_job_records, record_file, record_of
from tvmake.storage.notes.listings import listing_of
from tvmake.storage.resources import snakefile

Kind = Literal["missing", "altered", "option", "code", "source", "input", "rule", "unknown"]

SHORT = 12
"""Characters of a digest that are shown."""

OWNERS = {"target": ("targets", "target_name"), "device": ("devices", "device_name")}
"""Parts of a request that stand in the config under the name that another field gives."""

SECTIONS = {
    "measurement": "benchmark", "search": "tuning", "measure": "tuning.measure", "self_test": "export.self_test",
    "why_not": "export.self_test",
}  # fmt: skip
"""Parts of a request that are called otherwise in the config."""


@dataclass(frozen=True)
class Change:
    """One thing that differs."""

    kind: Kind
    what: str
    """A file, a key of the config, a module or a library."""
    before: str | None = None
    """None for what was not there."""
    after: str | None = None

    def __str__(self) -> str:
        """In a line; long values shortened to what differs."""
        if self.kind == "missing":
            return f"{self.what} {'was removed' if self.before else 'is not made yet'}"
        if self.kind == "altered":
            return f"{self.what} is not as it was made: {self.before} → {self.after}"
        if self.before is None and self.after is None:
            return self.what
        if self.kind == "input" and None in (self.before, self.after):
            return f"{'reads' if self.before is None else 'no longer reads'} {self.what}"
        return shortened(self.what, self.before, self.after)


def changes(job: Job) -> list[Change]:
    """What differs from what a job's results were made of; nothing where they are up to date by themselves.

    Whether the jobs before it would make another input is not looked at.
    """
    digests = known_digests()
    if gone := [name for name in job.outputs if not os.path.exists(name)]:  # noqa: PTH110  # of thousands
        return [Change("missing", name, before="there" if record_file(name).exists() else None) for name in gone]
    record, noted = record_of(job.outputs), finished_job(job.outputs[0])
    if noted is None or (record is None and has_job_records()):
        return [Change("unknown", "nothing is known of how it was made")]
    found = [
        Change("altered", name, short(digest), _present(name))
        for name, digest in (record.outputs if record else {}).items()
        if not digests.has(name, digest)
    ]
    found += _of_rule(job, noted)
    found += _of_parameters(job, noted)
    before = {**noted.digests, **(record.inputs if record else {})}
    for name in job.inputs:
        if (
            name not in job.sources
            and before.get(name)
            and os.path.exists(name)  # noqa: PTH110  # of thousands
            and not digests.has(name, before[name])
        ):
            found.append(Change("input", name, short(before[name]), _present(name)))
    known = {change.what for change in found}
    found += [Change("input", name, None, "there") for name in job.inputs if name not in (*noted.inputs, *known)]
    found += [Change("input", name, "there", None) for name in noted.inputs if name not in (*job.inputs, *known)]
    return found


def _present(name: str) -> str:
    """A file's digest as it is shown."""
    try:
        return short(known_digests().digest(name))
    except OSError as error:
        return f"cannot be read ({(error.strerror or str(error)).lower()})"


def short(digest: str) -> str:
    """The beginning of a digest."""
    return digest[:SHORT]


def _of_rule(job: Job, noted: FinishedJob) -> Iterator[Change]:
    command = _rule_commands().get(job.rule)
    if command is not None and command != noted.code:
        yield Change("rule", f"rule {job.rule}", "another command", "that of the rule as it is now")


def _of_parameters(job: Job, noted: FinishedJob) -> Iterator[Change]:
    """What differs in the values that the rule gives its job: options, digest of its code, digest of its sources, and others."""
    sources = Sources(None).digest(job.sources)
    present = [job.options, job.fingerprint, *job.parameters.values(), *([sources] if job.sources else [])]
    former = [value for value in noted.parameters if value not in present]
    added = [value for value in present if value not in noted.parameters]
    # Of those that are gone, which one stood for what: options are JSON, digests have their listings.
    digests = [value for value in former if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)]
    listings = {value: listing for value in digests if (listing := listing_of(value)) is not None}
    if job.fingerprint in added:
        before = next((value for value in digests if _is_code(listings.get(value))), None)
        yield from _of_listing("code", listings.get(before or ""), listing_now(job), "tvmake's code or its libraries")
    if sources in added:
        before = next((value for value in digests if value in listings and not _is_code(listings[value])), None)
        now = {name: known_digests().digest(name) for name in job.sources if Path(name).exists()}
        yield from _of_listing("source", listings.get(before or ""), now, f"one of {', '.join(job.sources)}")
    if job.options and job.options in added:
        yield from _of_options(job, next((text for text in former if isinstance(text, str) and text[:1] == "{"), "{}"))
    others = [(name, value) for name, value in job.parameters.items() if value in added]
    plain = [value for value in former if value not in digests and str(value)[:1] not in ("{", "[")]
    for (name, value), before in zip(others, [*plain, *[None] * len(others)], strict=False):
        yield Change("option", name, None if before is None else str(before), str(value))


def listing_now(job: Job) -> dict[str, str]:
    """The modules and library versions behind a job's fingerprint."""
    from tvmake.storage.code_fingerprint import parts

    stage = stage_named(job.stage)
    request = stage.request_model.model_validate_json(job.options) if stage.request_model and job.options else None
    return parts(*stage.roots(request))


def _is_code(listing: Mapping[str, str] | None) -> bool:
    return listing is not None and any(name.startswith("tvmake.") for name in listing)


def _of_listing(
    kind: Literal["code", "source"], before: Mapping[str, str] | None, now: Mapping[str, str], otherwise: str
) -> Iterator[Change]:
    if before is None:
        yield Change(kind, f"{otherwise} changed; what it was before is not known")
        return
    for name in sorted({*before, *now}, key=str):
        old, new = before.get(name), now.get(name)
        if old != new:
            yield Change(kind, name, old and short(old), new and short(new))


def _of_options(job: Job, before: str) -> Iterator[Change]:
    """The keys whose values differ, as the config calls them."""
    stage = stage_named(job.stage)

    def full(text: str) -> dict[str, Any]:
        """A request with its defaults, which it travels without; one of another version as it is."""
        try:
            assert stage.request_model is not None
            values = stage.request_model.model_validate_json(text).model_dump(mode="json")
        except (ValueError, AssertionError):
            values = json.loads(text)
        return values if isinstance(values, dict) else {}

    old, new = full(before), full(job.options)
    names = {**new, "model": job.wildcards.get("model"), "precision": job.wildcards.get("precision")}
    for path, (was, is_now) in sorted(_differences(old, new).items()):
        yield Change("option", config_key(job.stage, path, names), _text(was), _text(is_now))


def config_key(stage: str, path: tuple[str, ...], names: Mapping[str, Any]) -> str:
    """Where a field of a stage's request stands in the config.

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
    found: dict[tuple[str, ...], tuple[Any, Any]] = {}
    if all(value is None or isinstance(value, dict) for value in (old, new)):
        before, after = old or {}, new or {}
        for name in {*before, *after}:
            found |= _differences(before.get(name), after.get(name), (*path, str(name)))
    return found or {path: (old, new)}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@cache
def _rule_commands() -> Mapping[str, str]:
    """The command of each rule, with the names of its inputs and parameters left in."""
    found: dict[str, str] = {}
    for file in sorted((snakefile().parent / "rules").glob("*.smk")):
        for name, body in re.findall(
            r"^(?:rule|checkpoint) (\w+):\n((?:[ \t].*\n|\n)+)", file.read_text(), re.MULTILINE
        ):
            if shell := re.search(r"^    shell:\n((?: {8}.*\n?)+)", body, re.MULTILINE):
                found[name] = ast.literal_eval(f"({shell[1]})")
    return found
