"""What determines a run on this machine now."""

import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tvmake import __version__
from tvmake.config.dataset_files import dataset_files
from tvmake.lock.compilers import compilers
from tvmake.lock.document import Origins, Tool
from tvmake.lock.git import own_revision, revision
from tvmake.plan.plan import Plan
from tvmake.stages.registry import stages
from tvmake.storage.code_fingerprint import DISTRIBUTIONS, PACKAGE_ROOT, reachable, version
from tvmake.storage.files import digest_bytes, digest_file
from tvmake.targets.cpu.identity import cpu_identity
from tvmake.transform.options import BUILD_POINTS, TRANSFORM_POINTS

PATH_KEYS = (("results",), ("cache",), ("tuning", "store"), ("tuning", "shared"), ("tuning", "frozen"))
"""Keys with paths that belong to one machine and do not affect contents."""


def hermetic() -> tuple[str, ...]:
    """The stages with byte-identical outputs for the same inputs, in the order of data flow; for measuring stages this holds if the
    lock provides the measurements."""
    return tuple(stage.name for stage in stages().values() if stage.is_hermetic)


def origins(plan: Plan) -> Origins:
    """Everything that determines the plan's packages on this machine.

    Raises:
        MachineError: an input cannot be read.
    """
    models = dict.fromkeys(variant.model for variant in plan.variants)
    targets = {variant.target: plan.config.targets[variant.target] for variant in plan.variants}
    return Origins(
        tvmake=Tool(version=__version__, revision=own_revision(), code=_code(plan, models)),
        project=revision(Path()),
        config=portable_config(plan),
        inputs={name: _digest(files) for name, files in sorted(inputs(plan).items())},
        versions=_versions(plan, models),
        compilers=compilers(dict(sorted(targets.items()))),
        cpus={name: cpu_identity() for name, target in sorted(targets.items()) if target.is_native},
    )


def portable_config(plan: Plan) -> dict[str, Any]:
    """The plan's config without paths that belong to this machine."""
    values = plan.resolved_config()
    for path in PATH_KEYS:
        _drop(values, path)
        for target in values["targets"].values():
            _drop(target, path)
    return values


def inputs(plan: Plan) -> dict[str, list[Path]]:
    """The files that the config names, by their name there: models, datasets, modules with factories and passes."""
    models = dict.fromkeys(variant.model for variant in plan.variants)
    return {name: files for model in models for name, files in _inputs_of(plan, model).items()}


def models_by_input(plan: Plan) -> dict[str, frozenset[str]]:
    """The models that read each input."""
    models: dict[str, frozenset[str]] = {}
    for model in dict.fromkeys(variant.model for variant in plan.variants):
        for name in _inputs_of(plan, model):
            models[name] = models.get(name, frozenset()) | {model}
    return models


def is_dataset(name: str) -> bool:
    """Whether an input is used to validate packages, not to build them."""
    return "(dataset of " in name


def stage_roots(plan: Plan, stage: str, models: Iterable[str]) -> list[str]:
    """The modules that a stage's code begins with."""
    return list(dict.fromkeys(root for model in models for root in plan.roots(stage, {"model": model})))


def libraries(plan: Plan, stage: str, models: Iterable[str]) -> set[str]:
    """The distributions whose version can change a stage's bytes."""
    roots = stage_roots(plan, stage, models)
    if stage == "export":  # its self-tests hold what the model's framework gave
        roots += stage_roots(
            plan, "self_test", [model for model in models if plan.context({"model": model}).export.test]
        )
    _, reached = reachable(*roots)
    return {name for library in reached for name in DISTRIBUTIONS[library]}


def _inputs_of(plan: Plan, name: str) -> dict[str, list[Path]]:
    job = plan.context({"model": name})
    files = [*job.model_files, *job.pass_files(TRANSFORM_POINTS), *job.pass_files(BUILD_POINTS)]
    inputs = {_identity_of(file): [Path(file)] for file in files}
    if (dataset := plan.config.networks[name].dataset) is not None:
        inputs[f"{dataset.path} (dataset of {name})"] = [Path(file) for file in dataset_files(dataset)]
    return inputs


def _code(plan: Plan, models: Iterable[str]) -> dict[str, str]:
    return {stage: _code_digest(stage_roots(plan, stage, models)) for stage in hermetic()}


def _code_digest(roots: list[str]) -> str:
    sha256 = hashlib.sha256()
    modules, _ = reachable(*roots)
    for module in modules:
        base = PACKAGE_ROOT.joinpath(*module.split(".")[1:])
        file = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
        sha256.update(f"{module} {digest_file(file)}\n".encode())
    return sha256.hexdigest()


def _versions(plan: Plan, models: Iterable[str]) -> dict[str, str]:
    named = set().union(*(libraries(plan, stage, models) for stage in hermetic()))
    return {"python": platform.python_version()} | {name: version(name) for name in sorted(named)}


def _identity_of(file: str) -> str:
    """A module on ``sys.path`` is identified by its path below that; a model by its name in the config."""
    path = Path(file)
    if not path.is_absolute():
        return file
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    for parent in path.parents:
        if parent.name in ("site-packages", "dist-packages"):
            return str(path.relative_to(parent))
    return file


def _digest(files: list[Path]) -> str | None:
    """One file's sha256; of several, that of their names and digests."""
    if not files or not all(file.is_file() for file in files):
        return None
    if len(files) == 1:
        return digest_file(files[0])
    root = files[0].parent
    lines = sorted(f"{_below(file, root)} {digest_file(file)}\n" for file in files)
    return digest_bytes("".join(lines).encode())


def _below(file: Path, root: Path) -> str:
    return str(file.relative_to(root)) if file.is_relative_to(root) else file.name


def _drop(values: dict[str, Any], path: tuple[str, ...]) -> None:
    *parents, last = path
    for part in parents:
        values = values.get(part) or {}
    values.pop(last, None)
