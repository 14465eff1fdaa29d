"""What must be there before a plan's jobs can run."""

import errno
import os
import platform
import re
import shlex
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvmake.artifact.dims import fixed_sizes, sample_sizes
from tvmake.artifact.extents import describe_bounds, has_size, narrow_bounds
from tvmake.artifact.signature import Bounds, Signature
from tvmake.cache import settings
from tvmake.config.dataset import DatasetConfig
from tvmake.config.reading.load import one_or_many
from tvmake.config.validation import goals_for
from tvmake.device.architecture import check_triple
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.file_kinds import missing_file_remedy
from tvmake.frontend.model_files import python_file
from tvmake.plan.outputs import directories, recognise
from tvmake.plan.plan import Plan, Variant
from tvmake.process.cpu_affinity import tvm_threads
from tvmake.process.user_code import check_function
from tvmake.records.frozen import read_frozen
from tvmake.records.store import open_store
from tvmake.storage.directories import LOGS, SNAKEMAKE_STATE
from tvmake.storage.plain_files import KINDS, broken_link
from tvmake.storage.shared_directory import open_directory

AXES = ("models", "precisions", "targets")
"""The keys with the names of which the paths of results consist, in this order."""

DEVICE_FILES = ("identity", "known_hosts", "programs")
"""Keys of devices that name files or directories of this machine."""

WILDCARD = re.compile(r"\{\s*\w+\s*(,[^{}]*)?\}")
"""What Snakemake replaces in the name of a file that a rule reads; it cannot be told not to."""

LOCAL = "local"

LABELLED_GOALS = ("top1", "top1_drop")
UNLABELLED_GOALS = "top1_agreement, sqnr_db"


def missing_inputs(plan: Plan) -> TvmakeError | None:
    """The error for models, datasets, passes and metrics that the config names and that do not exist, are no files, cannot be
    read or have a name that Snakemake takes for a pattern, if any."""
    missing = [
        InputError(
            _key_of(plan, model, file),
            *_missing(file),
        )
        for model in plan.config.models
        for file in plan.source_files(model)
        if not (os.path.isfile(file) or os.path.isdir(file))  # noqa: PTH112, PTH113  # of thousands
        or not os.access(file, os.R_OK)
        or WILDCARD.search(file)
    ]
    return one_or_many(missing) if missing else None


def _missing(file: str) -> tuple[str, str]:
    """Problem and remedy of what is no file."""
    if problem := broken_link(file):
        return problem, "correct the link, or name the file"
    if wildcard := WILDCARD.search(file):
        return f"Snakemake takes {wildcard[0]} in a name for a pattern: {file}", "rename it, without the braces"
    if os.path.isfile(file) or os.path.isdir(file):  # noqa: PTH112, PTH113
        return f"cannot be read: permission denied: {file}", "see its owner and mode: ls -l"
    if os.path.lexists(file):
        kind = KINDS.get(stat.S_IFMT(os.stat(file).st_mode), "something else")  # noqa: PTH116
        return f"is {kind}, and no file: {file}", "name a file"
    return f"no such file: {file}", missing_file_remedy(file) or f"relative paths begin at {Path.cwd()}"


def _key_of(plan: Plan, model: str, file: str) -> str:
    """The key that names a file of a model."""
    options = plan.config.models[model]
    named = {f"models.{model}.files[{index}]": each for index, each in enumerate(options.files)}
    if options.dataset is not None:
        named[f"models.{model}.dataset.path"] = options.dataset.path
        if isinstance(options.dataset.label_names, str):
            named[f"models.{model}.dataset.label_names"] = options.dataset.label_names
    named[f"models.{model}.source"] = options.source
    for key, path in named.items():
        if os.path.normpath(file) == os.path.normpath(path):
            return key
    for key, use in _functions(plan, model):
        if python_file(use) == file:
            return key
    return f"models.{model}.source" if python_file(options.source) == file else f"models.{model}"


def _functions(plan: Plan, model: str) -> Iterator[tuple[str, str]]:
    """The passes and metrics of a model: by key, as ``package.module:function``."""
    options = plan.config.models[model]
    for key, transform in ((f"models.{model}.transform", options.transform), ("transform", plan.config.transform)):
        for index, each in enumerate(transform.passes if transform else ()):
            yield f"{key}.passes[{index}].use", each.use
    for name, metric in ((options.goals and options.goals.metrics) or {}).items():
        yield f"models.{model}.goals.metrics.{name}.use", metric.use


def check_functions(plan: Plan) -> None:
    """Refuse passes and metrics that their modules' files do not define; none is imported.

    Raises:
        InputError, ErrorList: there is no such function.
    """
    found = dict(pair for model in plan.config.models for pair in _functions(plan, model))
    errors = []
    for key, use in found.items():
        try:
            check_function(use, Path(python_file(use)), key)
        except InputError as error:
            errors.append(error)
    if errors:
        raise one_or_many(errors)


def check_stores(plan: Plan) -> None:
    """Refuse stores of records that can be none, and locks that cannot be read or would not be used, before each kernel's job does.

    Raises:
        InputError: one is no directory, no address, or no lock; a lock names records where nothing is to be tuned.
        MachineError: the package for a kind of address is not installed.
    """
    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.context(variant).is_tuned):
        tuning = plan.context({"target": target}).tuning
        with _under(_tuning_key(plan, target, "store")):
            _check_can_be_made(open_store(tuning.store).root)
        if tuning.shared is not None:
            with _under(_tuning_key(plan, target, "shared")):
                open_directory(tuning.shared)
    for lock in dict.fromkeys(filter(None, (plan.context(variant).tuning.frozen for variant in plan.variants))):
        of_lock = [variant for variant in plan.variants if plan.context(variant).tuning.frozen == lock]
        with _under(_tuning_key(plan, of_lock[0].target, "frozen")):
            records = read_frozen(Path(lock)).records
            names = [f"{one.model}/{one.precision}/{one.target}" for one in of_lock if not plan.context(one).is_tuned]
            if unused := [name for name in names if name in records]:
                problem = f"has records of {unused[0]}, which is built without: no trials are wanted for it"
                raise InputError(
                    lock, problem, "set tuning.trials as when it was tuned; with a lock nothing is measured"
                )


def check_device_files(plan: Plan) -> None:
    """Refuse devices whose files here are missing, and targets that their device, this machine, cannot run.

    Raises:
        TvmakeError, ErrorList: a file is missing, a target is for another processor, or the environment gives this machine no number of
            threads.
    """
    errors: list[TvmakeError] = []
    for name in dict.fromkeys(filter(None, (plan.context(variant).device_name for variant in plan.runnable))):
        for key in DEVICE_FILES:
            file = getattr(plan.config.devices.get(name), key, None)
            if file is not None and not Path(file).expanduser().exists():
                remedy = missing_file_remedy(file) or f"relative paths begin at {Path.cwd()}"
                errors.append(InputError(f"devices.{name}.{key}", f"there is no {file}", remedy))
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


@contextmanager
def _under(key: str) -> Iterator[None]:
    """Errors of the block name the key of the config first."""
    try:
        yield
    except TvmakeError as error:
        raise type(error)(f"{key}: {error.where}", error.problem, error.remedy) from None


def _tuning_key(plan: Plan, target: str, key: str) -> str:
    settings = plan.config.targets[target].tuning
    return f"targets.{target}.tuning.{key}" if settings and key in settings.model_fields_set else f"tuning.{key}"


def check_places(plan: Plan, variants: Iterable[Variant]) -> None:
    """Refuse directories, and links that lead to themselves, where results and logs are to be files, files where their directories
    are to be, and names of which both would be made.

    What lies in such a directory is nothing that tvmake made, so it is not removed; an empty one is, when its file is made.

    Raises:
        InputError, ErrorList: something is in the way.
    """
    jobs = [*(job for variant in variants for job in plan.jobs(variant)), *plan.run_jobs()]
    files = dict.fromkeys(file for job in jobs for file in (*job.outputs, job.log))
    names = dict.fromkeys(map(os.path.dirname, files))
    above = dict.fromkeys(str(parent) for name in names for parent in _chain(name))
    results = plan.config.results
    found = [*_named_as_files(above, files, results), *_no_directories(above, results), *_no_files(files, results)]
    if found:
        raise one_or_many(found)


def check_directories(plan: Plan) -> None:
    """Refuse results that would lie among the files of the project, and a cache or stores among results and logs, or the reverse.

    What cleans one of them, reads it or hands it on would meet the others.

    Raises:
        InputError: two directories are the same, or one lies in the other.
    """
    results, project = Path(plan.config.results).resolve(), Path.cwd()
    if project.is_relative_to(results):
        problem = "the project lies in it, with files that are no results"
        raise InputError(f"results: {plan.config.results}", problem, "name a directory of its own, such as results")
    made = {"results": results, LOGS: project / LOGS, str(SNAKEMAKE_STATE): project / SNAKEMAKE_STATE}
    kept = _kept_directories(plan)
    for key, place in kept.items():
        others = {**made, **{other: each for other, each in kept.items() if "cache" in (key, other) and other != key}}
        for name, other in others.items():
            # What holds the whole project may be a disk of many people's.
            is_above = other.is_relative_to(place) and not project.parent.is_relative_to(place)
            if place.is_relative_to(other) or is_above:
                relation = "is the directory of" if place == other else "holds" if is_above else "lies in"
                raise InputError(f"{key}: {place}", f"{relation} {name}", "name a directory of its own")


def _kept_directories(plan: Plan) -> dict[str, Path]:
    """The directories of this machine that the config names for what outlives a run, by key."""
    found: dict[str, Path] = {}
    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.context(variant).is_tuned):
        tuning = plan.context({"target": target}).tuning
        for key, name in (("store", tuning.store), ("shared", tuning.shared)):
            if name is not None and "://" not in name.removeprefix("file://"):
                found[_tuning_key(plan, target, key)] = Path(name.removeprefix("file://")).expanduser().resolve()
    cache = plan.config.cache
    if cache is not None and not cache.is_remote:
        found["cache"] = settings.directory(cache).resolve()
    return found


def check_results_can_be_made(plan: Plan) -> None:
    """Refuse a place for results where no directory can be made.

    Raises:
        InputError: the system refuses.
    """
    with _under("results"):
        _check_can_be_made(Path(plan.config.results))


def _check_can_be_made(directory: Path) -> None:
    """Refuse a directory that can be none; one is made beside it and removed again."""
    if os.path.lexists(directory):
        return
    above = next(place for place in directory.absolute().parents if place.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".tvmake-", dir=above))  # noqa: PTH106
    except OSError as error:
        problem = f"no directory can be made in {above}: {error.strerror}"
        raise InputError(str(directory), problem, "name a directory that you may write to") from None


def _named_as_files(above: Iterable[str], files: Collection[str], results: str) -> Iterator[InputError]:
    for name in above:
        if name in files:
            place = Path(name).relative_to(LOGS if name.startswith(f"{LOGS}/") else results)
            key = f"{AXES[len(place.parts) - 1]}.{place.name}"
            yield InputError(key, f"the name is used by the file {name}", "choose another one")


def _no_directories(above: Iterable[str], results: str) -> Iterator[InputError]:
    for name in above:
        if name == results and os.path.exists(name) and not os.path.isdir(name):  # noqa: PTH110, PTH112
            what = "a file" if os.path.isfile(name) else "a device, a pipe or a socket"  # noqa: PTH113
            yield InputError(f"results: {name}", f"is {what}, and a directory is made of it", "name another directory")
        elif os.path.lexists(name) and not os.path.isdir(name):  # noqa: PTH112  # of thousands
            what = "is a link that leads nowhere" if os.path.islink(name) else "is no directory"  # noqa: PTH114
            yield InputError(
                name, f"{what}, and results or logs are to be made in it", "remove it, or move it elsewhere"
            )


def _chain(directory: str) -> list[Path]:
    """A directory and those above it, as they are named."""
    place = Path(directory)
    return [one for one in (place, *place.parents) if one != Path()]


def _no_files(files: Iterable[str], results: str) -> Iterator[InputError]:
    for name in files:
        if os.path.islink(name) and _leads_to_itself(name):  # noqa: PTH114  # of tens of thousands
            problem = "is a link that leads to itself, where a file is to be made"
            yield InputError(name, problem, f"remove it: rm {shlex.quote(name)}")
        if not os.path.isdir(name) or not os.listdir(name):  # noqa: PTH112, PTH208  # of tens of thousands
            continue
        known = recognise(name, results)
        if known is None or name.startswith(f"{LOGS}/") or known.artifact not in directories():
            yield InputError(name, "is a directory, where a file is to be made", "move it elsewhere")


def _leads_to_itself(link: str) -> bool:
    try:
        os.stat(link)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def check_dims(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse sizes and bounds for dynamic dimensions that a model does not have, or that it contradicts.

    Args:
        declared: inputs by model, of those that can be told without running it.

    Raises:
        InputError, ErrorList: a model has no such dimension, its file says otherwise, or samples would have other sizes.
    """
    errors: list[TvmakeError] = []
    for name, signature in declared.items():
        extents = {extent for spec in signature.inputs for extent in spec.shape if isinstance(extent, str)}
        listing = f"it has: {', '.join(sorted(extents))}" if extents else "all its shapes are fixed"
        dims, bounds = plan.config.models[name].dims, dict(signature.bounds)
        for dimension, size in dims.items():
            if dimension not in extents:
                problem = f"the model has no dynamic dimension '{dimension}'"
                errors.append(InputError(f"models.{name}.dims", problem, listing))
                continue
            try:
                where = f"models.{name}.dims.{dimension}"
                bounds[dimension] = narrow_bounds(where, size, signature.bounds.get(dimension))
            except InputError as error:
                errors.append(error)
        errors += _wrong_sample_sizes(plan, name, {one: bounds[one] for one in bounds if one not in fixed_sizes(dims)})
    if errors:
        raise one_or_many(errors)


def _wrong_sample_sizes(plan: Plan, model: str, bounds: Mapping[str, Bounds]) -> Iterator[InputError]:
    own = plan.config.models[model].validation
    for dimension, size in plan.context({"model": model}).validation.dims.items():
        if dimension in bounds and not has_size(bounds[dimension], size):
            where = f"models.{model}.validation" if own is not None and dimension in own.dims else "validation"
            takes = describe_bounds(bounds[dimension])
            problem = f"is {size}, and model '{model}' takes {takes}"
            yield InputError(f"{where}.dims.{dimension}", problem, "give a size that it takes")


def check_datasets(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse datasets that cannot be opened or do not fit their model, and goals that need labels where the samples have none.

    Such goals would be missed however good a package is. Of the samples the first ones are read.

    Args:
        declared: inputs and outputs by model, of those that can be told without running it.

    Raises:
        InputError, ErrorList: a model has such a goal and no labels, or such a dataset.
    """
    errors: list[TvmakeError] = []
    for name in dict.fromkeys(variant.model for variant in plan.runnable):
        model = plan.config.models[name]
        levels = (plan.config.validation.goals, plan.context({"model": name}).validation.goals, model.goals)
        bases = {plan.config.precisions[variant.precision].base for variant in plan.runnable if variant.model == name}
        goals = [goals_for(base, *levels) for base in sorted(bases)]
        wanted = [goal for goal in LABELLED_GOALS if any(getattr(each, goal) is not None for each in goals)]
        where = f"models.{name}.goals.{wanted[0] if wanted else ''}"
        if model.dataset is None:
            if not wanted:
                continue
            remedy = f"give the model a `dataset` with labels, or goals that need none: {UNLABELLED_GOALS}"
            errors.append(InputError(where, "needs labels, and the model has no dataset", remedy))
            continue
        dims = sample_sizes(model.dims, plan.context({"model": name}).validation.dims)
        try:
            has_labels = _has_labels(model.dataset, declared.get(name), dims)
        except InputError as error:
            errors.append(InputError(f"models.{name}.dataset: {error.where}", error.problem, error.remedy))
            continue
        if wanted and not has_labels:
            remedy = f"say where they are (`dataset.labels`), or set goals that need none: {UNLABELLED_GOALS}"
            errors.append(InputError(where, f"needs labels, and {model.dataset.path} has none", remedy))
    if errors:
        raise one_or_many(errors)


def _has_labels(dataset: DatasetConfig, signature: Signature | None, dims: Mapping[str, int]) -> bool:
    """Whether a dataset's samples have labels; the first ones are read where it is known what takes them."""
    from tvmake.validate.dataset import load_dataset
    from tvmake.validate.dataset_sources import open_rows

    if signature is not None:
        return next(iter(load_dataset(dataset, signature, dims=dims))).labels is not None
    names = dataset.label_names
    return open_rows(Path(dataset.path), dataset, names if isinstance(names, list) else []).labels is not None
