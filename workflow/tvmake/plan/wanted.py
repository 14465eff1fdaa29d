"""What ``tvmake make`` is asked for: variants, stages and files as Snakemake knows them."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tvmake.errors import InputError, UsageError
from tvmake.plan.outputs import recognise
from tvmake.plan.plan import Job, Plan
from tvmake.stages.descriptor import Stage
from tvmake.stages.registry import stages

EVERYTHING = "all"
"""The rule that gathers the others."""

SHOWN = 5
"""Variants that a remedy names."""

LISTED = "`tvmake check --files` lists the files that can be made"


def wanted_files(plan: Plan, words: Iterable[str]) -> list[str]:
    """Files as Snakemake knows them: a variant stands for its package, a stage for all that it makes, and a full path for the one
    from here.

    Raises:
        InputError: one is of a model, precision or target that the config does not have, is a directory or a model, or a stage of
            which nothing can be made.
        UsageError: one has the form of a stage's name, and is none.
    """
    packages = {str(variant): plan.file("package.tar", variant) for variant in plan.variants}
    named = {name: stage for stage in stages().values() for name in (stage.name, *stage.rule_names)}
    found: list[str] = []
    for word in words:
        if word in packages:
            found.append(packages[word])
        elif word in named:
            found += _files_of(plan, word, named[word])
        else:
            file = os.path.relpath(word) if Path(word).is_absolute() else word
            _check(plan, file, named)
            found.append(file)
    return list(dict.fromkeys(found))


def with_rules(words: Iterable[str]) -> list[str]:
    """Options of Snakemake's with the rules of stages that they name, where those are called otherwise (``import_model``)."""
    rules = {stage.name: stage.rules[0] for stage in stages().values() if len(stage.rules) == 1}
    found = []
    for word in words:
        option, equals, value = word.rpartition("=")
        found.append(f"{option}{equals}{rules.get(value, value)}" if word[:1] == "-" else rules.get(word, word))
    return found


def _files_of(plan: Plan, word: str, stage: Stage) -> list[str]:
    """What a stage makes for all variants; those of one of its rules, where that is named."""
    jobs = _jobs(plan)
    found = [file for job in jobs if word in (job.stage, job.rule) for file in job.outputs]
    if found:
        return found
    if stage.is_searching and any(plan.context(variant).is_tuned for variant in plan.variants):
        problem = "which searches there are is known only when their budgets are planned"
        raise InputError(word, problem, "`tvmake make pick_best` plans and makes them")
    raise InputError(word, "the config asks for nothing of this stage", f"it has {', '.join(_stages_of(plan))}")


def _jobs(plan: Plan) -> list[Job]:
    return [*(job for variant in plan.variants for job in plan.jobs(variant)), *plan.run_jobs()]


def _stages_of(plan: Plan) -> list[str]:
    """The stages that have jobs, in the order that data flows."""
    present = {job.stage for job in _jobs(plan)}
    return [name for name in stages() if name in present]


def _nearest_variant(plan: Plan, word: str) -> str | None:
    """The name that a word misspells of a variant, or of its package; None where it is meant for something else."""
    names = {str(variant): plan.file("package.tar", variant) for variant in plan.variants}
    if word.count("/") == 2 and not Path(word).exists():
        return next(iter(difflib.get_close_matches(word, names, 1, cutoff=0.7)), None)
    return next((names[name] for name in names if word.strip("/") == f"{name}/{Path(names[name]).name}"), None)


def _refuse_part(plan: Plan, file: str, known: Mapping[str, Sequence[str]]) -> None:
    """Refuse ``model/precision``, and what may be meant for it; other words are Snakemake's to judge."""
    model, _, precision = file.partition("/")
    if "." not in precision or precision in known["precision"]:
        has_both = model in known["model"] and precision in known["precision"]
        problem = "is a model at a precision, not a variant" if has_both else "is no variant of the config"
        named = {"model": model, "precision": precision} if has_both else {"model": model}
        raise InputError(file, problem, _name_one(plan, named))


def _name_one(plan: Plan, named: Mapping[str, str]) -> str:
    """The remedy that lists the variants of a model, precision or target; all where there is none of it."""
    variants = [str(one) for one in plan.variants if all(getattr(one, axis) == name for axis, name in named.items())]
    variants = variants or [str(variant) for variant in plan.variants]
    more = f" and {len(variants) - SHOWN} more" if len(variants) > SHOWN else ""
    listed = ", ".join(variants[:SHOWN])
    return f"name a variant, as {listed}{more}, or a file that `tvmake check --files` lists"


def _check(plan: Plan, file: str, named: Iterable[str]) -> None:
    known: dict[str, list[str]] = {
        "model": list(plan.config.models),
        "precision": list(plan.config.precisions),
        "target": list(plan.config.targets),
    }
    if not file:
        raise UsageError(
            "''", "names no file", f"name a variant, as {plan.variants[0]}, or a file that `tvmake check --files` lists"
        )
    found = recognise(os.path.normpath(file), plan.config.results)
    if found is None and (near := _nearest_variant(plan, file)):
        raise InputError(file, "is no variant of the config, and no file of it", f"did you mean '{near}'?")
    if found is None and file.endswith((".yaml", ".yml")):
        raise UsageError(file, "is a config, and not made", f"name it with -c: -c {file}")
    if found is None and (axis := next((axis for axis in known if file in known[axis]), None)):
        raise InputError(file, f"is a {axis}, not a file", _name_one(plan, {axis: file}))
    if found is None and Path(file).is_dir():
        remedy = f"name a variant, as {plan.variants[0]}, or a file that `tvmake check --files` lists"
        raise InputError(file, "is a directory, not a file", remedy)
    if found is None and file.count("/") == 1 and not Path(file).exists():
        _refuse_part(plan, file, known)
    if found is None and "/" not in file and file != EVERYTHING:
        close = difflib.get_close_matches(file, named, n=1)
        remedy = f"did you mean '{close[0]}'?" if close else f"{LISTED}; stages are {', '.join(_stages_of(plan))}"
        raise UsageError(file, "nothing makes this", remedy)
    for axis, name in found.wildcards.items() if found else ():
        if axis in known and name not in known[axis]:
            close = difflib.get_close_matches(name, known[axis], n=1)
            raise InputError(
                file,
                f"the config has no {axis} '{name}'",
                f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known[axis])}",
            )
