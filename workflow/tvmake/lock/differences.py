"""The differences between this machine and that of a lock, and which of them explain different files."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvmake.lock.artifacts import Mismatch
from tvmake.lock.document import Lock, Origins, Revision
from tvmake.lock.origins import hermetic, is_dataset, libraries, models_by_input, origins
from tvmake.plan.plan import Plan
from tvmake.records.frozen import LockedRecords
from tvmake.records.preference import latency_ms, latest_comparison
from tvmake.records.record import Comparison
from tvmake.records.store import RecordStore, StoredRecord, open_store

EVERY = frozenset(hermetic())

MEASURING = ("benchmark", "devices", "tuning")
"""Top-level config keys that do not affect packages if the records are fixed."""

MEASURING_OF_MODEL = ("benchmark", "tuning", "precisions", "targets")
"""The same for a model's keys; variants are compared separately."""

SELF_TEST = frozenset({"export"})
SELF_TEST_OF_MODEL = ("dataset", "export", "goals", "validation")
"""Keys of a model that only affect its packages' self-tests."""

STAGES_OF_KEY: dict[str, frozenset[str]] = {
    "models": frozenset({"import", "transform", "extract", "build", "attest"}),
    "precisions": frozenset({"transform", "choose_precision"}),
    "transform": frozenset({"transform", "choose_layout", "choose_precision", "extract", "build"}),
    "targets": frozenset({"extract", "pick_best", "build"}),
    "build": frozenset({"extract", "build"}),
    "export": SELF_TEST,
    "validation": SELF_TEST,
}
"""The stages that read a part of the config."""

SHORT = 12
"""Hex digits of a digest to show."""


@dataclass(frozen=True)
class Difference:
    """One thing that is other here than in the lock."""

    text: str
    stages: frozenset[str] = EVERY
    """The stages whose bytes it may change; empty for information only."""
    only: frozenset[str] = frozenset()
    """The models or targets whose files it may change; empty for all."""


def differences(plan: Plan, lock: Lock) -> list[Difference]:
    """Everything that determines a run and is other here, the likeliest to matter first.

    Raises:
        MachineError: the records store cannot be read.
    """
    here, then = origins(plan), lock.origins
    names = list(dict.fromkeys(variant.model for variant in plan.variants))
    changes = [
        *_variants(plan, lock),
        *_inputs(plan, here, then, models_by_input(plan)),
        *_versions(plan, here, then, names),
        *_compilers(here, then),
        *_config(here.config, then.config),
        *_records(plan, lock),
        *_code(here, then),
    ]
    return sorted(changes, key=lambda difference: not difference.stages)


def causes(mismatch: Mismatch, candidates: list[Difference]) -> list[Difference]:
    """The differences that may explain a mismatch."""
    parts = set(mismatch.path.split("/"))
    return [
        difference
        for difference in candidates
        if mismatch.stage in difference.stages and (not difference.only or difference.only & parts)
    ]


def _variants(plan: Plan, lock: Lock) -> Iterator[Difference]:
    here = {f"{variant}" for variant in plan.variants}
    then = {entry.path.removesuffix("/package.tar") for entry in lock.packages}
    for name in sorted(then - here):
        yield Difference(f"variant {name}: in the lock only")
    for name in sorted(here - then):
        yield Difference(f"variant {name}: here only")
    tuned = {f"{variant}" for variant in plan.variants if plan.context(variant).is_tuned}
    for name in sorted((tuned ^ set(lock.records)) & here & then):
        text = "here, and not in the lock" if name in tuned else "in the lock, and not here"
        only = frozenset({name.rpartition("/")[2]})
        yield Difference(f"variant {name}: tuned {text}", frozenset({"extract", "pick_best", "build"}), only)


def _inputs(plan: Plan, here: Origins, then: Origins, models: Mapping[str, frozenset[str]]) -> Iterator[Difference]:
    for name, digest in then.inputs.items():
        now = here.inputs.get(name)
        only = models.get(name, frozenset())
        stages = frozenset({"import", "transform", "extract", "build", "attest"})
        if is_dataset(name):
            # It decides whether a package passes, not what is in it, unless samples of it are to be there.
            tests = [plan.context({"model": model}).export.test for model in only]
            stages = SELF_TEST if any(test and test.inputs == "dataset" for test in tests) else frozenset()
        if name not in here.inputs:
            yield Difference(f"input {name}: not used here", stages, only)
        elif now is None:
            yield Difference(f"input {name}: missing", stages, only)
        elif now != digest:
            text = f"input {name}: another file, sha256 {now[:SHORT]}… ({_short(digest)} in the lock)"
            yield Difference(text, stages, only)
    for name in sorted(set(here.inputs) - set(then.inputs)):
        yield Difference(f"input {name}: not in the lock", EVERY, models.get(name, frozenset()))


def _versions(plan: Plan, here: Origins, then: Origins, models: list[str]) -> Iterator[Difference]:
    read_by = {stage: libraries(plan, stage, models) for stage in hermetic()}
    for name in sorted({*here.versions, *then.versions}):
        now, before = here.versions.get(name, "unused"), then.versions.get(name, "unused")
        if now != before:
            stages = frozenset(stage for stage, named in read_by.items() if name in named or name not in here.versions)
            if name == "python":
                # A patch release of Python changes no byte that we know of.
                stages = EVERY if now.split(".")[:2] != before.split(".")[:2] else frozenset()
            yield Difference(f"version of {name}: {now} ({before} in the lock)", stages)
    if here.tvmake.version != then.tvmake.version:
        yield Difference(f"version of tvmake: {here.tvmake.version} ({then.tvmake.version} in the lock)")


def _compilers(here: Origins, then: Origins) -> Iterator[Difference]:
    pairs = ("compiler", here.compilers, then.compilers), ("CPU", here.cpus, then.cpus)
    stages = {"compiler": frozenset({"build", "export"}), "CPU": frozenset({"extract", "pick_best", "build"})}
    for what, now, before in pairs:
        for name in sorted(set(now) & set(before)):
            if now[name] != before[name]:
                text = f"{what} of target {name}: {now[name]} ({before[name]} in the lock)"
                yield Difference(text, stages[what], frozenset({name}))


def _config(here: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[Difference]:
    now, before = dict(_flat(here)), dict(_flat(then))
    measuring = 0
    for key in [*before, *(key for key in now if key not in before)]:
        if now.get(key) == before.get(key) or key[0] == "variants":
            continue
        if _is_measuring(key):
            measuring += 1
            continue
        shown = f"{_value(now.get(key))} ({_value(before.get(key))} in the lock)"
        # Only models, precisions and targets have names that their files go under.
        only = frozenset(key[1:2]) if key[0] in ("models", "precisions", "targets") else frozenset()
        is_self_test = key[0] == "models" and key[2:3] != () and key[2] in SELF_TEST_OF_MODEL
        stages = SELF_TEST if is_self_test else STAGES_OF_KEY.get(key[0], EVERY)
        yield Difference(f"config {'.'.join(key)}: {shown}", stages, only)
    if measuring:
        keys = "1 key differs" if measuring == 1 else f"{measuring} keys differ"
        yield Difference(f"config: {keys} that only measuring reads", frozenset())


def _is_measuring(key: tuple[str, ...]) -> bool:
    if key[0] == "tuning":
        return key[1:2] != ("require_coverage",)
    if key[0] == "models":
        return key[2:3] != () and key[2] in MEASURING_OF_MODEL
    if key[0] == "targets":
        return key[2:3] in (("device",), ("tuning",))
    return key[0] in MEASURING


def _records(plan: Plan, lock: Lock) -> Iterator[Difference]:
    seen: set[tuple[str, str]] = set()
    for variant in plan.variants:
        if not plan.context(variant).is_tuned or (frozen := lock.records.get(str(variant))) is None:
            continue
        store = open_store(plan.context(variant).tuning.store)
        yield from _records_of(frozen, store, seen)


def _records_of(frozen: LockedRecords, store: RecordStore, seen: set[tuple[str, str]]) -> Iterator[Difference]:
    context = frozen.context
    for kernel in frozen.kernels:
        if kernel.record is None or (kernel.workload, kernel.record) in seen:
            continue
        seen.add((kernel.workload, kernel.record))
        name = f"records of {kernel.name} ({kernel.workload[:SHORT]}…)"
        stored = {record.digest: record for record in store.load(context, kernel.workload)}
        used = stored.get(kernel.record)
        if used is None:
            yield Difference(
                f"{name}: the one used, {kernel.record[:SHORT]}…, is not in {store.root}",
                frozenset({"pick_best", "build"}),
            )
        elif used.outcome != "ok":
            yield Difference(f"{name}: the record in use was found wrong since then; it is used again", frozenset())
        elif faster := _faster(stored.values(), used, latest_comparison(store.comparisons(context, kernel.workload))):
            better_ms, used_ms = faster
            yield Difference(
                f"{name}: a faster one came since ({better_ms:.4g} ms, the lock's {used_ms:.4g} ms is used)",
                frozenset(),
            )


def _faster(
    stored: Iterable[StoredRecord], used: StoredRecord, comparison: Comparison | None
) -> tuple[float, float] | None:
    """The latencies in ms of the fastest record and of the one in use, if that is slower; records that were compared with it are not faster."""
    compared = comparison.samples_s if comparison and used.digest in comparison.samples_s else {}
    used_ms = latency_ms(used, comparison)
    others = [
        record.latency_ms
        for record in stored
        if record.latency_ms is not None and record.digest not in compared and record.size_points == used.size_points
    ]
    return (min(others), used_ms) if used_ms is not None and min(others, default=used_ms) < used_ms else None


def _code(here: Origins, then: Origins) -> Iterator[Difference]:
    changed = [stage for stage in hermetic() if here.tvmake.code.get(stage) != then.tvmake.code.get(stage)]
    if changed:
        was = _revision(then.tvmake.revision, here.tvmake.revision)
        yield Difference(f"tvmake's own code: that of {', '.join(changed)}{was}", frozenset(changed))
    if here.project != then.project and then.project is not None:
        yield Difference(f"git revision of the project{_revision(then.project, here.project)}", frozenset())


def _revision(then: Revision | None, here: Revision | None) -> str:
    if then is None:
        return ""
    now = "none" if here is None else _commit(here)
    return f": {now} ({_commit(then)} in the lock)"


def _commit(revision: Revision) -> str:
    return revision.commit[:SHORT] + (", modified" if revision.modified else "")


def _flat(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from _flat(value, path)
        else:
            yield path, value


def _value(value: Any, limit: int = 60) -> str:
    text = "unset" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _short(digest: str | None) -> str:
    return f"{digest[:SHORT]}…" if digest else "missing"
