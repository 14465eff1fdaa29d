"""Convert the words of ``tvmake make`` (variants, stages, files) to files for Snakemake."""

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
"""The rule that collects the others."""

SHOWN = 5
"""Maximum number of variants in a remedy."""

LISTED = "`tvmake check --files` lists the files that can be made"


def requested_files(plan: Plan, words: Iterable[str]) -> list[str]:
    """Return files as Snakemake names them: a variant's package, a stage's outputs, and paths relative to
    the working directory.

    Raises:
        InputError: a word names an unknown model, precision or target, a directory, only a model, or a stage without
            outputs.
        UsageError: a word looks like a stage, but is not one.
    """
    packages = {str(variant): plan.file("package.tar", variant) for variant in plan.variants}
    named = {name: stage for stage in stages().values() for name in (stage.name, *stage.rule_names)}
    files: list[str] = []
    for word in words:
        if word in packages:
            files.append(packages[word])
        elif word in named:
            files += _files_of(plan, word, named[word])
        else:
            file = os.path.relpath(word) if Path(word).is_absolute() else word
            _check(plan, file, named)
            files.append(file)
    return list(dict.fromkeys(files))


def with_rules(words: Iterable[str]) -> list[str]:
    """Replace stages' names in Snakemake's options by their rules' names, if these differ (``import_model``)."""
    rules = {stage.name: stage.rules[0] for stage in stages().values() if len(stage.rules) == 1}
    options = []
    for word in words:
        option, equals, value = word.rpartition("=")
        options.append(f"{option}{equals}{rules.get(value, value)}" if word[:1] == "-" else rules.get(word, word))
    return options


def _files_of(plan: Plan, word: str, stage: Stage) -> list[str]:
    """Outputs of a stage for all variants, or of one of its rules if that is named."""
    jobs = _jobs(plan)
    files = [file for job in jobs if word in (job.stage, job.rule) for file in job.outputs]
    if files:
        return files
    if stage.is_searching and any(plan.context(variant).is_tuned for variant in plan.variants):
        problem = "its searches are known only when their budgets are planned"
        raise InputError(word, problem, "`tvmake make pick_best` plans and makes them")
    raise InputError(word, "the config needs nothing from this stage", f"it has {', '.join(_stages_of(plan))}")


def _jobs(plan: Plan) -> list[Job]:
    return [*(job for variant in plan.variants for job in plan.jobs(variant)), *plan.run_jobs()]


def _stages_of(plan: Plan) -> list[str]:
    """The stages that have jobs, in the order of the data flow."""
    present = {job.stage for job in _jobs(plan)}
    return [name for name in stages() if name in present]


def _nearest_variant(plan: Plan, word: str) -> str | None:
    """The variant or package whose name a word misspells; None if it means something else."""
    names = {str(variant): plan.file("package.tar", variant) for variant in plan.variants}
    if word.count("/") == 2 and not Path(word).exists():
        return next(iter(difflib.get_close_matches(word, names, 1, cutoff=0.7)), None)
    return next((names[name] for name in names if word.strip("/") == f"{name}/{Path(names[name]).name}"), None)


def _refuse_part(plan: Plan, file: str, known: Mapping[str, Sequence[str]]) -> None:
    """Refuse ``model/precision`` and misspellings of it; Snakemake judges other words."""
    model, _, precision = file.partition("/")
    if "." not in precision or precision in known["precision"]:
        has_both = model in known["model"] and precision in known["precision"]
        problem = "is a model at a precision, not a variant" if has_both else "is not a variant of the config"
        named = {"model": model, "precision": precision} if has_both else {"model": model}
        raise InputError(file, problem, _list_variants(plan, named))


def _list_variants(plan: Plan, named: Mapping[str, str]) -> str:
    """The remedy that lists the variants of a model, precision or target; all variants if there are none."""
    variants = [
        str(variant) for variant in plan.variants if all(getattr(variant, axis) == name for axis, name in named.items())
    ]
    variants = variants or [str(variant) for variant in plan.variants]
    more = f" and {len(variants) - SHOWN} more" if len(variants) > SHOWN else ""
    listed = ", ".join(variants[:SHOWN])
    return f"name a variant, such as {listed}{more}, or a file that `tvmake check --files` lists"


def _check(plan: Plan, file: str, named: Iterable[str]) -> None:
    known: dict[str, list[str]] = {
        "model": list(plan.config.models),
        "precision": list(plan.config.precisions),
        "target": list(plan.config.targets),
    }
    if not file:
        raise UsageError(
            "''",
            "names no file",
            f"name a variant, such as {plan.variants[0]}, or a file that `tvmake check --files` lists",
        )
    recognised = recognise(os.path.normpath(file), plan.config.results)
    if recognised is None and (near := _nearest_variant(plan, file)):
        raise InputError(file, "is neither a variant nor a file of the config", f"did you mean '{near}'?")
    if recognised is None and file.endswith((".yaml", ".yml")):
        raise UsageError(file, "is a config, not a result", f"name it with -c: -c {file}")
    if recognised is None and (axis := next((axis for axis in known if file in known[axis]), None)):
        raise InputError(file, f"is a {axis}, not a file", _list_variants(plan, {axis: file}))
    if recognised is None and Path(file).is_dir():
        remedy = f"name a variant, such as {plan.variants[0]}, or a file that `tvmake check --files` lists"
        raise InputError(file, "is a directory, not a file", remedy)
    if recognised is None and file.count("/") == 1 and not Path(file).exists():
        _refuse_part(plan, file, known)
    if recognised is None and "/" not in file and file != EVERYTHING:
        close = difflib.get_close_matches(file, named, n=1)
        remedy = f"did you mean '{close[0]}'?" if close else f"{LISTED}; stages are {', '.join(_stages_of(plan))}"
        raise UsageError(file, "no job makes this", remedy)
    for axis, name in recognised.wildcards.items() if recognised else ():
        if axis in known and name not in known[axis]:
            close = difflib.get_close_matches(name, known[axis], n=1)
            raise InputError(
                file,
                f"the config has no {axis} '{name}'",
                f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known[axis])}",
            )
