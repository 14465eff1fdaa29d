"""Check the preconditions of a plan's jobs."""

import errno
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvmake.artifact.dims import fixed_sizes, sample_sizes, spell_shape
from tvmake.artifact.extents import describe_bounds, has_size, narrow_bounds
from tvmake.artifact.signature import Bounds, Signature
from tvmake.cache import settings
from tvmake.config.dataset import DatasetConfig
from tvmake.config.reading.load import one_or_many
from tvmake.config.root import Config
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
from tvmake.storage.directories import SNAKEMAKE_STATE
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
        for model in plan.config.models
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
    options = plan.config.models[model]
    named = {f"models.{model}.files[{index}]": file_name for index, file_name in enumerate(options.files)}
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
    """The passes and metrics of a model: key and ``package.module:function``."""
    options = plan.config.models[model]
    for key, transform in ((f"models.{model}.transform", options.transform), ("transform", plan.config.transform)):
        for index, step in enumerate(transform.passes if transform else ()):
            yield f"{key}.passes[{index}].use", step.use
    for name, metric in ((options.goals and options.goals.metrics) or {}).items():
        yield f"models.{model}.goals.metrics.{name}.use", metric.use


def check_functions(plan: Plan) -> None:
    """Refuse passes and metrics that their modules' files do not define. Nothing is imported.

    Raises:
        InputError, ErrorList: a function does not exist.
    """
    functions = dict(pair for model in plan.config.models for pair in _functions(plan, model))
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
        with _prefix_errors(_tuning_key(plan, target, "store")):
            _check_can_create(open_store(tuning.store).root)
        if tuning.shared is not None:
            with _prefix_errors(_tuning_key(plan, target, "shared")):
                open_directory(tuning.shared)
    for lock in dict.fromkeys(filter(None, (plan.context(variant).tuning.frozen for variant in plan.variants))):
        users = [variant for variant in plan.variants if plan.context(variant).tuning.frozen == lock]
        with _prefix_errors(_tuning_key(plan, users[0].target, "frozen")):
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


@contextmanager
def _prefix_errors(key: str) -> Iterator[None]:
    """Prefix errors of the block with a config key."""
    try:
        yield
    except TvmakeError as error:
        raise type(error)(f"{key}: {error.where}", error.problem, error.remedy) from None


def _tuning_key(plan: Plan, target: str, key: str) -> str:
    settings = plan.config.targets[target].tuning
    return f"targets.{target}.tuning.{key}" if settings and key in settings.model_fields_set else f"tuning.{key}"


def check_output_paths(plan: Plan, variants: Iterable[Variant]) -> None:
    """Refuse entries that block the files of results and logs: directories in place of files, links to themselves, files in place of
    directories.

    tvmake did not make the files in such a directory, so it does not remove them. An empty one is removed.

    Raises:
        InputError, ErrorList: an entry blocks a file.
    """
    jobs = [*(job for variant in variants for job in plan.jobs(variant)), *plan.run_jobs()]
    files = dict.fromkeys(file for job in jobs for file in (*job.outputs, job.log))
    names = dict.fromkeys(map(os.path.dirname, files))
    above = dict.fromkeys(str(parent) for name in names for parent in _chain(name))
    results = plan.config.results
    errors = [*_not_directories(above, results), *_not_files(files, plan.config)]
    if errors:
        raise one_or_many(errors)


def check_directories(plan: Plan) -> None:
    """Refuse results or logs among the project's own files or in each other, and a cache or stores inside them, or the reverse.

    Commands that clean, read or share one of them would meet the others.

    Raises:
        InputError: two directories are the same, or one contains the other.
    """
    results, logs, project = Path(plan.config.results).resolve(), Path(plan.config.logs).resolve(), Path.cwd()
    for key, typed, directory in (("results", plan.config.results, results), ("logs", plan.config.logs, logs)):
        if project.is_relative_to(directory):
            problem = f"it contains the project, with files that are not {key}"
            raise InputError(f"{key}: {typed}", problem, f"use a separate directory, such as {key}")
    if results.is_relative_to(logs) or logs.is_relative_to(results):
        both = {"logs": logs, "results": results}
        key = "logs" if "logs" in plan.config.model_fields_set else "results"
        second = "results" if key == "logs" else "logs"
        is_inside = both[key].is_relative_to(both[second])
        relation = "is" if results == logs else "is inside" if is_inside else "contains"
        where = f"{key}: {getattr(plan.config, key)}"
        raise InputError(where, f"{relation} the directory of {second}", "use a separate directory")
    written = {"results": results, "logs": logs, str(SNAKEMAKE_STATE): project / SNAKEMAKE_STATE}
    named = _kept_directories(plan)
    for key, directory in named.items():
        others = {
            **written,
            **{other: path for other, path in named.items() if "cache" in (key, other) and other != key},
        }
        for name, other in others.items():
            # A directory above the whole project may be a disk of several users.
            is_above = other.is_relative_to(directory) and not project.parent.is_relative_to(directory)
            if directory.is_relative_to(other) or is_above:
                relation = "is the directory of" if directory == other else "contains" if is_above else "is inside"
                raise InputError(f"{key}: {directory}", f"{relation} {name}", "use a separate directory")


def _kept_directories(plan: Plan) -> dict[str, Path]:
    """Local directories of the config that outlive a run, by key."""
    named: dict[str, Path] = {}
    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.context(variant).is_tuned):
        tuning = plan.context({"target": target}).tuning
        for key, name in (("store", tuning.store), ("shared", tuning.shared)):
            if name is not None and "://" not in name.removeprefix("file://"):
                named[_tuning_key(plan, target, key)] = Path(name.removeprefix("file://")).expanduser().resolve()
    cache = plan.config.cache
    if cache is not None and not cache.is_remote:
        named["cache"] = settings.directory(cache).resolve()
    return named


def check_results_directory(plan: Plan) -> None:
    """Refuse a results directory that cannot be created.

    Raises:
        InputError: it cannot be created.
    """
    with _prefix_errors("results"):
        _check_can_create(Path(plan.config.results))


def _check_can_create(directory: Path) -> None:
    """Refuse a directory that cannot be created, by creating one beside it and removing it."""
    if os.path.lexists(directory):
        return
    above = next(parent for parent in directory.absolute().parents if parent.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".tvmake-", dir=above))  # noqa: PTH106
    except OSError as error:
        problem = f"cannot create a directory in {above}: {error.strerror}"
        raise InputError(str(directory), problem, "name a directory that you can write to") from None


def _not_directories(above: Iterable[str], results: str) -> Iterator[InputError]:
    for name in above:
        if name == results and os.path.exists(name) and not os.path.isdir(name):  # noqa: PTH110, PTH112
            kind = "a file" if os.path.isfile(name) else "a device, a pipe or a socket"  # noqa: PTH113
            yield InputError(f"results: {name}", f"is {kind}, but must be a directory", "name another directory")
        elif os.path.lexists(name) and not os.path.isdir(name):  # noqa: PTH112  # of thousands
            kind = "is a broken link" if os.path.islink(name) else "is not a directory"  # noqa: PTH114
            yield InputError(name, f"{kind}, but results or logs go into it", "remove it, or move it elsewhere")


def _chain(directory: str) -> list[Path]:
    """A directory and its parents, as named."""
    path = Path(directory)
    return [parent for parent in (path, *path.parents) if parent != Path()]


def _not_files(files: Iterable[str], config: Config) -> Iterator[InputError]:
    for name in files:
        if os.path.islink(name) and _leads_to_itself(name):  # noqa: PTH114  # of tens of thousands
            problem = "is a link to itself, but must be a file"
            yield InputError(name, problem, f"remove it: rm {shlex.quote(name)}")
        if not os.path.isdir(name) or not os.listdir(name):  # noqa: PTH112, PTH208  # of tens of thousands
            continue
        known = recognise(name, config)
        if known is None or name.startswith(f"{config.logs}/") or known.artifact not in directories():
            yield InputError(name, "is a directory, but must be a file", "move it elsewhere")


def _leads_to_itself(link: str) -> bool:
    try:
        os.stat(link)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def check_dims(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse sizes and bounds for dynamic dimensions that a model does not have, or that contradict it.

    Args:
        declared: signatures by model, if known without running it.

    Raises:
        InputError, ErrorList: a model has no such dimension, its file contradicts, or samples would have other sizes.
    """
    errors: list[TvmakeError] = []
    for name, signature in declared.items():
        dynamic = {dim for spec in signature.inputs for dim in spec.shape if isinstance(dim, str)}
        listing = f"it has: {', '.join(sorted(dynamic))}" if dynamic else "all its shapes are fixed"
        dims, bounds = plan.config.models[name].dims, dict(signature.bounds)
        for dimension, size in dims.items():
            if dimension not in dynamic:
                problem = f"the model has no dynamic dimension '{dimension}'"
                errors.append(InputError(f"models.{name}.dims", problem, listing))
                continue
            try:
                where = f"models.{name}.dims.{dimension}"
                bounds[dimension] = narrow_bounds(where, size, signature.bounds.get(dimension))
            except InputError as error:
                errors.append(error)
        errors += _wrong_shapes(plan, name, dynamic, bounds)
        errors += _wrong_sample_sizes(plan, name, {dim: bounds[dim] for dim in bounds if dim not in fixed_sizes(dims)})
    if errors:
        raise one_or_many(errors)


def check_fixed_sizes(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse networks with dynamic dimensions on targets that need fixed sizes.

    Args:
        declared: signatures by model, if known without running it.

    Raises:
        InputError, ErrorList: naming the dimensions and the target.
    """
    errors = []
    for name, signature in declared.items():
        model = plan.config.models[name]
        free = [
            dimension
            for dimension in signature.dynamic_dimensions
            if dimension not in fixed_sizes(model.dims)
            and (not model.shapes or any(dimension not in shape for shape in model.shapes))
        ]
        targets = {variant.target for variant in plan.variants if variant.model == name} if free else set()
        for target in sorted(filter(lambda target: _needs_fixed_sizes(plan, target), targets)):
            problem = f"target '{target}' needs fixed sizes, and the model has the dynamic dimensions {', '.join(free)}"
            sizes = ", ".join(f"{dimension}: SIZE" for dimension in free)
            remedy = f"fix them, `dims: {{{sizes}}}`, or list the sizes to take, `shapes: [{{{sizes}}}]`"
            errors.append(InputError(f"models.{name}", problem, remedy))
    if errors:
        raise one_or_many(errors)


def _needs_fixed_sizes(plan: Plan, target: str) -> bool:
    from tvmake.targets.backends import backend_of
    from tvmake.targets.resolve import tvm_target

    return backend_of(tvm_target(plan.config.targets[target].options(), f"targets.{target}")).needs_fixed_sizes


def _wrong_shapes(
    plan: Plan, model: str, dynamic: Collection[str], bounds: Mapping[str, Bounds]
) -> Iterator[InputError]:
    listing = f"it has: {', '.join(sorted(dynamic))}" if dynamic else "all its shapes are fixed"
    where = f"models.{model}.shapes"
    for shape in plan.config.models[model].shapes:
        for dimension, size in shape.items():
            if dimension not in dynamic:
                problem = f"{spell_shape(shape)}: the model has no dynamic dimension '{dimension}'"
                yield InputError(where, problem, listing)
            elif dimension in bounds and not has_size(bounds[dimension], size):
                takes = describe_bounds(bounds[dimension])
                yield InputError(where, f"{spell_shape(shape)}: {dimension} takes {takes}", "choose such a size")


def _wrong_sample_sizes(plan: Plan, model: str, bounds: Mapping[str, Bounds]) -> Iterator[InputError]:
    own = plan.config.models[model].validation
    for dimension, size in plan.context({"model": model}).validation.dims.items():
        if dimension in bounds and not has_size(bounds[dimension], size):
            where = f"models.{model}.validation" if own is not None and dimension in own.dims else "validation"
            takes = describe_bounds(bounds[dimension])
            problem = f"is {size}, but model '{model}' takes {takes}"
            yield InputError(f"{where}.dims.{dimension}", problem, "choose such a size")


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
        model = plan.config.models[name]
        levels = (plan.config.validation.goals, plan.context({"model": name}).validation.goals, model.goals)
        bases = {plan.config.precisions[variant.precision].base for variant in plan.runnable if variant.model == name}
        goals = [goals_for(base, *levels) for base in sorted(bases)]
        labelled = [goal for goal in LABELLED_GOALS if any(getattr(options, goal) is not None for options in goals)]
        where = f"models.{name}.goals.{labelled[0] if labelled else ''}"
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
            errors.append(InputError(f"models.{name}.dataset: {error.where}", error.problem, error.remedy))
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
