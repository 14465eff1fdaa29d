"""Convert the words of ``tvmake make`` (variants, stages, files) to files for Snakemake."""

import difflib
import os
from collections.abc import Iterable
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
    """Return files as Snakemake names them: the packages of a variant or a model, a stage's outputs, and paths relative to
    the working directory.

    Raises:
        InputError: a file belongs to an unknown model, precision or target, or a stage has no outputs.
        UsageError: a word is neither a variant, a stage nor a file.
    """
    packages = _packages(plan)
    named = {name: stage for stage in stages().values() for name in (stage.name, *stage.rule_names)}
    files: list[str] = []
    for word in words:
        if word in named:
            files += _files_of(plan, word, named[word])
        elif word in packages:
            files += packages[word]
        else:
            file = os.path.relpath(word) if Path(word).is_absolute() else word
            _check(plan, file, named)
            files.append(file)
    return list(dict.fromkeys(files))


def _packages(plan: Plan) -> dict[str, list[str]]:
    """The packages of each variant and each model by name; of a model with functions also the joined ones."""
    packages: dict[str, list[str]] = {}
    for variant in plan.variants:
        context = plan.context(variant)
        for name in plan.names_of(variant):
            files = packages.setdefault(name, [])
            files.append(context.file("package.tar"))
            if context.functions and name.partition("/")[0] == context.group:
                files.append(context.file("joined/package.tar"))
    return packages


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


def _check(plan: Plan, file: str, named: Iterable[str]) -> None:
    """Refuse words that no job can mean, and files of variants that the config does not have. Snakemake judges other files."""
    recognised = recognise(os.path.normpath(file), plan.config)
    if recognised is None and file.endswith((".yaml", ".yml")):
        raise UsageError(file, "is a config, not a result", f"name it with -c: -c {file}")
    if recognised is None and file != EVERYTHING and not (Path(file).suffix and "/" in file):
        variants = list(map(str, plan.variants))
        more = f" and {len(variants) - SHOWN} more" if len(variants) > SHOWN else ""
        close = difflib.get_close_matches(file, [*variants, *named], n=1)
        listed = f"variants are {', '.join(variants[:SHOWN])}{more}; stages are {', '.join(_stages_of(plan))}; {LISTED}"
        remedy = f"did you mean '{close[0]}'?" if close else listed
        raise UsageError(file or "''", "is neither a variant, a stage nor a file that a job makes", remedy)
    config = plan.config
    axes = {
        "model": [*config.networks],
        "group": list(config.models),
        "precision": list(config.precisions),
        "target": list(config.targets),
    }
    for axis, name in recognised.wildcards.items() if recognised else ():
        if name not in axes.get(axis, [name]):
            close = difflib.get_close_matches(name, axes[axis], n=1)
            remedy = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(axes[axis])}"
            raise InputError(file, f"the config has no {axis} '{name}'", remedy)
