"""Check the preconditions of a plan's jobs."""

import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tvmake.artifact.dims import sample_sizes
from tvmake.artifact.signature import Signature
from tvmake.config.dataset import DatasetConfig
from tvmake.config.reading.load import one_or_many
from tvmake.config.validation import goals_for
from tvmake.device.architecture import check_triple
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.file_kinds import missing_file_remedy
from tvmake.frontend.model_files import python_file
from tvmake.plan.config_keys import prefix_errors, tuning_key
from tvmake.plan.directory_checks import check_can_create
from tvmake.plan.plan import Plan
from tvmake.process.cpu_affinity import tvm_threads
from tvmake.process.user_code import check_function
from tvmake.records.frozen import read_frozen
from tvmake.records.store import open_store
from tvmake.storage.plain_files import broken_link, special_kind
from tvmake.storage.shared_directory import open_directory

DEVICE_FILES = ("identity", "known_hosts", "programs")
"""Keys of devices that name files or directories of this machine."""

WILDCARD = re.compile(r"\{\s*\w+\s*(,[^{}]*)?\}")
"""A wildcard that Snakemake replaces in the name of an input; this cannot be disabled."""

LOCAL = "local"

LABELLED_GOALS = ("top1", "top1_drop")
UNLABELLED_GOALS = "top1_agreement, sqnr_db"


def missing_inputs(plan: Plan) -> TvmakeError | None:
    """Return the error for models, datasets, passes and metrics of the config that do not exist, are not files, cannot be
    read, or have names with Snakemake's wildcards; None if there are none."""
    missing = [
        InputError(
            _key_of(plan, model, file),
            *_missing(file),
        )
        for model in plan.config.networks
        for file in plan.source_files(model)
        if not (os.path.isfile(file) or os.path.isdir(file))  # noqa: PTH112, PTH113  # of thousands
        or not os.access(file, os.R_OK)
        or WILDCARD.search(file)
    ]
    return one_or_many(missing) if missing else None


def _missing(file: str) -> tuple[str, str]:
    """Problem and remedy of a path that is not a usable file."""
    if problem := broken_link(file):
        return problem, "correct the link, or name the file"
    if wildcard := WILDCARD.search(file):
        return f"Snakemake treats {wildcard[0]} in a name as a pattern: {file}", "rename it without braces"
    if os.path.isfile(file) or os.path.isdir(file):  # noqa: PTH112, PTH113
        return f"cannot be read: permission denied: {file}", "check its owner and mode: ls -l"
    if kind := special_kind(file):
        return f"is {kind}, not a file: {file}", "name a file"
    return f"no such file: {file}", missing_file_remedy(file) or f"relative paths start in {Path.cwd()}"


def _key_of(plan: Plan, model: str, file: str) -> str:
    """The config key that names a file of a model."""
    options, where = plan.config.networks[model], plan.config.key_of(model)
    named = {f"{where}.files[{index}]": file_name for index, file_name in enumerate(options.files)}
    if options.dataset is not None:
        named[f"{where}.dataset.path"] = options.dataset.path
        if isinstance(options.dataset.label_names, str):
            named[f"{where}.dataset.label_names"] = options.dataset.label_names
    named[f"{where}.source"] = options.source
    for key, path in named.items():
        if os.path.normpath(file) == os.path.normpath(path):
            return key
    for key, use in _functions(plan, model):
        if python_file(use) == file:
            return key
    return f"{where}.source" if python_file(options.source) == file else where


def _functions(plan: Plan, model: str) -> Iterator[tuple[str, str]]:
    """The passes and metrics of a model: key and ``package.module:function``."""
    options, where = plan.config.networks[model], plan.config.key_of(model)
    for key, transform in ((f"{where}.transform", options.transform), ("transform", plan.config.transform)):
        for index, step in enumerate(transform.passes if transform else ()):
            yield f"{key}.passes[{index}].use", step.use
    for name, metric in ((options.goals and options.goals.metrics) or {}).items():
        yield f"{where}.goals.metrics.{name}.use", metric.use


def check_functions(plan: Plan) -> None:
    """Refuse passes and metrics that their modules' files do not define. Nothing is imported.

    Raises:
        InputError, ErrorList: a function does not exist.
    """
    functions = dict(pair for model in plan.config.networks for pair in _functions(plan, model))
    errors = []
    for key, use in functions.items():
        try:
            check_function(use, Path(python_file(use)), key)
        except InputError as error:
            errors.append(error)
    if errors:
        raise one_or_many(errors)


def check_stores(plan: Plan) -> None:
    """Refuse invalid stores of records, and locks that cannot be read or used, before the kernels' jobs do.

    Raises:
        InputError: a directory, address or lock is invalid; or a lock has records for a variant that is not tuned.
        MachineError: the package for a kind of address is not installed.
    """
    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.context(variant).is_tuned):
        tuning = plan.context({"target": target}).tuning
        with prefix_errors(tuning_key(plan, target, "store")):
            check_can_create(open_store(tuning.store).root)
        if tuning.shared is not None:
            with prefix_errors(tuning_key(plan, target, "shared")):
                open_directory(tuning.shared)
    for lock in dict.fromkeys(filter(None, (plan.context(variant).tuning.frozen for variant in plan.variants))):
        users = [variant for variant in plan.variants if plan.context(variant).tuning.frozen == lock]
        with prefix_errors(tuning_key(plan, users[0].target, "frozen")):
            records = read_frozen(Path(lock)).records
            names = [
                f"{variant.model}/{variant.precision}/{variant.target}"
                for variant in users
                if not plan.context(variant).is_tuned
            ]
            if unused := [name for name in names if name in records]:
                problem = f"has records of {unused[0]}, which is built without tuning: its trials are 0"
                raise InputError(
                    lock, problem, "set tuning.trials to its value when it was tuned; with a lock nothing is measured"
                )


def check_device_files(plan: Plan) -> None:
    """Refuse devices whose local files are missing, and targets that this machine cannot run although it is their device.

    Raises:
        TvmakeError, ErrorList: a file is missing, a target is for another processor, or the number of threads is unknown.
    """
    errors: list[TvmakeError] = []
    for name in dict.fromkeys(filter(None, (plan.context(variant).device_name for variant in plan.runnable))):
        for key in DEVICE_FILES:
            file = getattr(plan.config.devices.get(name), key, None)
            if file is not None and not Path(file).expanduser().exists():
                remedy = missing_file_remedy(file) or f"relative paths start in {Path.cwd()}"
                errors.append(InputError(f"devices.{name}.{key}", f"no such file: {file}", remedy))
    targets = dict.fromkeys(variant.target for variant in plan.runnable if plan.context(variant).device_name == LOCAL)
    if targets and getattr(plan.config.devices.get(LOCAL), "threads", None) is None:
        try:
            tvm_threads()
        except TvmakeError as error:
            errors.append(error)
    for name in targets:
        target = plan.config.targets[name]
        try:
            check_triple((target.host or target).triple or "", platform.machine(), f"targets.{name}")
        except TvmakeError as error:
            errors.append(error)
    if errors:
        raise one_or_many(errors)


def check_datasets(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse datasets that cannot be opened or do not fit their model, and goals that need labels if the samples have none.

    No package could meet such goals. Only the first samples are read.

    Args:
        declared: signatures by model, if known without running it.

    Raises:
        InputError, ErrorList: a dataset is invalid, or a goal needs labels.
    """
    errors: list[TvmakeError] = []
    for name in dict.fromkeys(variant.model for variant in plan.runnable):
        model = plan.config.networks[name]
        levels = (plan.config.validation.goals, plan.context({"model": name}).validation.goals, model.goals)
        bases = {plan.config.precisions[variant.precision].base for variant in plan.runnable if variant.model == name}
        goals = [goals_for(base, *levels) for base in sorted(bases)]
        labelled = [goal for goal in LABELLED_GOALS if any(getattr(options, goal) is not None for options in goals)]
        where = f"{plan.config.key_of(name)}.goals.{labelled[0] if labelled else ''}"
        if model.dataset is None:
            if not labelled:
                continue
            remedy = f"add a `dataset` with labels to the model, or use goals without labels: {UNLABELLED_GOALS}"
            errors.append(InputError(where, "needs labels, but the model has no dataset", remedy))
            continue
        dims = sample_sizes(model.dims, plan.context({"model": name}).validation.dims)
        try:
            has_labels = _has_labels(model.dataset, declared.get(name), dims)
        except InputError as error:
            errors.append(InputError(f"{plan.config.key_of(name)}.dataset: {error.where}", error.problem, error.remedy))
            continue
        if labelled and not has_labels:
            remedy = f"set `dataset.labels`, or use goals without labels: {UNLABELLED_GOALS}"
            errors.append(InputError(where, f"needs labels, but {model.dataset.path} has none", remedy))
    if errors:
        raise one_or_many(errors)


def _has_labels(dataset: DatasetConfig, signature: Signature | None, dims: Mapping[str, int]) -> bool:
    """Whether a dataset's samples have labels. The first samples are read if the model's signature is known."""
    from tvmake.validate.dataset import load_dataset
    from tvmake.validate.dataset_sources import open_rows

    if signature is not None:
        return next(iter(load_dataset(dataset, signature, dims=dims))).labels is not None
    names = dataset.label_names
    return open_rows(Path(dataset.path), dataset, names if isinstance(names, list) else []).labels is not None
