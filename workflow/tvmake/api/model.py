"""A model in Python: ``tvmake.load("model.onnx").compile("native").run(…)``.

The workflow does the work, as for ``tvmake compile`` and ``tvmake make``: results and records are shared, and nothing runs twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tvmake.api.model_keys import Size, model_keys
from tvmake.errors import InputError
from tvmake.frontend.zoo_names import ZOO
from tvmake.plan.single import NATIVE, SingleRun, name_of

if TYPE_CHECKING:
    from tvmake.config.root import Config
    from tvmake.frontend.options import ImportOptions
    from tvmake.running.package import Package

OPTIONS = "options"
"""The argument with further keys of a config."""

DEFAULT_CONFIG = Path("tvmake.yaml")

IN_MEMORY = {
    "keras.": "save it, `model.save('net.keras')`, and load that file with trusted=True",
    "jax": "write it as StableHLO and load that file: `jax.export.export(function)(input).mlir_module()` (docs/guides/import-other.md)",
    "tensorflow.": "convert it to TFLite or ONNX, and load that file",
}
"""Remedies for models of other frameworks, by the beginning of their types' names."""


@dataclass(frozen=True)
class TunedKernel:
    """One kernel of a network after tuning."""

    name: str
    calls: int
    """How often the network calls it."""
    trials: int
    """Candidates measured so far."""
    latency_ms: float | None
    """The latency of the fastest correct candidate; None without one, or for kernels that are not tuned."""
    reason: str | None
    """Why there is none."""


@dataclass(frozen=True)
class Tuning:
    """The result of tuning, the most expensive kernel first."""

    kernels: tuple[TunedKernel, ...]

    @property
    def trials(self) -> int:
        """Candidates measured so far, for all kernels."""
        return sum(kernel.trials for kernel in self.kernels)

    def _repr_html_(self) -> str:
        rows = [
            (
                kernel.name,
                kernel.calls,
                kernel.trials,
                kernel.reason if kernel.latency_ms is None else f"{kernel.latency_ms:.4g}",
            )
            for kernel in self.kernels
        ]
        return html_table("tuning", ("kernel", "calls", "trials", "ms"), rows)


class Model:
    """A network to build packages of; created by :func:`tvmake.load`.

    Args:
        name: its name in results.
        source: its file, or ``zoo:<name>``; empty for a model of a config.
        keys: further keys of the model in a config: inputs, dims, trusted.
        config: the config of the model.

    Results go to the working directory at the time of loading, even if the process changes it later.
    """

    def __init__(
        self,
        name: str,
        source: str = "",
        keys: Mapping[str, Any] | None = None,
        config: Path | None = None,
    ):
        self.name = name
        self.source = source
        self.config_file = config.absolute() if config else None
        self.directory = Path.cwd()
        self._keys = dict(keys or {})
        self._trials: dict[str, int] = {}

    def compile(
        self,
        target: str | Mapping[str, Any] | None = None,
        precision: str | None = None,
        *,
        tune: int | None = None,
        output: Path | str | None = None,
        options: Mapping[str, Any] | None = None,
        shows_progress: bool = True,
    ) -> Package:
        """Build a package; earlier results are reused.

        Args:
            target: a name in ``tvmake targets``, a target in TVM's notation, or its keys; default: ``native``, this machine's CPU. For
                a model of a config: one of its targets; default: the model's first.
            precision: default: ``float32``, or the config's first.
            tune: the number of candidates to measure for fast kernels; default: as many as :meth:`tune` measured for the target,
                or the config's number.
            output: a path to copy the package to; it stays in the results too.
            options: additional config keys: ``{"build": {"opt_level": 2}, "transform": {"layout": "NHWC"}}``, or
                ``{"build.opt_level": 2}``.
            shows_progress: print a line for each job to standard error.

        Returns:
            The package, which runs here if it is built for this machine.

        Raises:
            InputError: the model or an argument is invalid.
            MachineError: this machine lacks a program or library.
        """
        from tvmake.artifact.package import is_package
        from tvmake.config.benchmark import Count
        from tvmake.running.arguments import path_of, validate_argument
        from tvmake.running.package import Package
        from tvmake.storage.destinations import check_destination
        from tvmake.storage.files import copy_file

        if output is not None:
            output = path_of("output", "the package to write", output)
            check_destination(output, "package", is_package)
        tune = validate_argument("tune", Count | None, tune)
        with self._build("package.tar", target, precision, tune, options, shows_progress) as built:
            if output is not None:
                copy_file(built, output)
            return Package(built if output is None else output)

    def tune(
        self,
        target: str | Mapping[str, Any] | None = None,
        precision: str | None = None,
        *,
        trials: int,
        options: Mapping[str, Any] | None = None,
        shows_progress: bool = True,
    ) -> Tuning:
        """Search for fast kernels on the target's device; ``compile`` for this target uses them from then on.

        Earlier measurements by any run on this machine count.

        Args:
            trials: the number of candidates to measure, over all kernels.
            target, precision, options, shows_progress: as for :meth:`compile`.

        Raises:
            InputError, MachineError: as :meth:`compile`.
            MachineError: this machine lacks a program or library, or a device was lost.
        """
        from tvmake.artifact import stage_json
        from tvmake.options import Positive
        from tvmake.records.best import BestSet
        from tvmake.running.arguments import validate_argument

        trials = validate_argument("trials", Positive, trials)
        with self._build("best.json", target, precision, trials, options, shows_progress) as built:
            best = stage_json.load(BestSet, built)
        self._trials[_target_text(target) or ""] = trials
        fields = ("name", "calls", "trials", "latency_ms", "reason")
        return Tuning(tuple(TunedKernel(*(getattr(kernel, field) for field in fields)) for kernel in best.kernels))

    def import_options(self) -> ImportOptions:
        """How the model is read, in a config's words."""
        from tvmake.config.root import ModelConfig

        if self.config_file:
            return self._config(self.config_file).networks[self.name].import_options()
        return ModelConfig(source=str(self.source), **self._keys).import_options()

    @contextmanager
    def _build(
        self,
        artifact: str,
        given_target: str | Mapping[str, Any] | None,
        precision: str | None,
        tune: int | None,
        options: Mapping[str, Any] | None,
        shows_progress: bool,
    ) -> Iterator[Path]:
        """Make a result, and keep other threads and processes from making another one in its place until it is taken."""
        from tvmake.config.reading.load import load_layers
        from tvmake.process.command import run_tvmake
        from tvmake.quantize.precision import BasePrecision
        from tvmake.running.arguments import validate_argument

        target: str | None = validate_argument("target", str | None, _target_text(given_target))
        if target in get_args(BasePrecision):
            raise InputError("target", f"'{target}' is a precision", f"write precision='{target}'")
        precision = validate_argument("precision", str | None, precision)
        layer = _nest(validate_argument("options", dict[str, Any] | None, options) or {})
        trials = self._trials.get(target or "") if tune is None else tune
        if self.config_file:
            results = self._of_config(self.config_file, artifact, target, precision)
            load_layers([self.config_file], layer, given_as=OPTIONS)
            layer = {**layer, **({"tuning.trials": trials} if trials is not None else {})}
            settings = [word for key, value in layer.items() for word in ("--set", f"{key}={json.dumps(value)}")]
            command = ["make", str(results), "--config", str(self.config_file), *settings]
            run_tvmake(command, self.directory, shows_progress=shows_progress)
            yield self.directory / results
            return
        run = SingleRun(
            self.source,
            NATIVE if target is None else target,
            "float32" if precision is None else precision,
            trials or 0,
            self._keys,
            layer=layer,
            layer_name=OPTIONS,
            name=self.name,
            root=self.directory,
        )
        run.check_config()
        with run.lock_directory():
            run.write_config()
            run_tvmake(run.command(artifact), shows_progress=shows_progress)
            yield run.directory / run.result(artifact)

    def _of_config(self, file: Path, artifact: str, target: str | None, precision: str | None) -> Path:
        config = self._config(file)
        variants = [names for names in config.combinations() if names[0] == self.name]
        for _, of_variant, on in variants:
            if precision in (None, of_variant) and target in (None, on):
                return Path(config.results) / self.name / of_variant / on / artifact
        known = ", ".join("/".join(names) for names in variants) or "none"
        requested = "/".join((self.name, precision or "*", target or "*"))
        raise InputError(str(file), f"has no variant {requested}", f"it has: {known}")

    def _config(self, file: Path) -> Config:
        from tvmake.config.reading.load import load

        return load([file])

    def __repr__(self) -> str:
        return f"<tvmake.Model {self.name}: {self._origin()}>"

    def _origin(self) -> str:
        """The model's source, relative to the working directory if it is below it."""
        origin, here = Path(self.source or str(self.config_file)), Path.cwd()
        return str(origin.relative_to(here) if origin.is_relative_to(here) else origin)

    def _repr_html_(self) -> str:
        inputs = [
            (name, entry.get("value", entry.get("shape"))) for name, entry in self._keys.get("inputs", {}).items()
        ]
        dims = list(self._keys.get("dims", {}).items())
        return html_table(self.name, ("", ""), [("source", self._origin()), *inputs, *dims])


def load(
    model: Any,
    inputs: Any = None,
    *,
    dims: Mapping[str, Size] | None = None,
    shapes: Sequence[Mapping[str, int]] = (),
    values: Mapping[str, Any] | None = None,
    state: Mapping[str, str] | None = None,
    config: Path | str | None = None,
    name: str = "",
    trusted: bool = False,
) -> Model:
    """Load a model to compile, to tune, and to compare packages with.

    Args:
        model: the path of a file, ``zoo:<name>``, a PyTorch module, a ``torch.export.ExportedProgram``, an
            ``onnx.ModelProto``, or the name of a model in a config.
        inputs: for a PyTorch module the example inputs, a tensor or a tuple of them; for a file the shapes of inputs with dynamic
            dimensions: ``{"image": (1, 3, 224, 224)}``.
        dims: sizes of dynamic dimensions by name, or their smallest and largest size: ``{"batch": 1, "length": (1, 512)}``.
        shapes: sizes of dynamic dimensions for which packages have code of their own: ``[{"batch": 1}, {"batch": 8}]``.
        values: values of inputs that always have the same one, and that the package then does not take: ``{"sr": 16000}``.
        state: inputs that packages keep from run to run, with the outputs that are their next values: ``{"state": "stateN"}``.
        config: the config with the model's name; default: ``tvmake.yaml`` here, unless ``model`` is a file.
        name: its name in results; default: from its file or class.
        trusted: let loading the source run code of the source.

    Raises:
        InputError: the model does not exist, an argument is invalid, or PyTorch cannot export it.
    """
    from tvmake.api import sources
    from tvmake.running.arguments import path_of, validate_argument

    name, trusted = validate_argument("name", str, name), validate_argument("trusted", bool, trusted)
    config = validate_argument("config", str | None, os.fspath(config) if isinstance(config, os.PathLike) else config)
    if isinstance(model, str | os.PathLike):
        path_of("load", "a model's file", model)
        keys = model_keys(inputs, dims, shapes, values, state, trusted=trusted)
        return _load_by_name(os.fspath(model), keys, Path(config) if config else None, name)
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(model).__mro__}
    if "onnx.ModelProto" in kinds or hasattr(model, "SerializeToString"):
        file = sources.onnx_file(model, name)
        return Model(
            name or _without_digest(file), str(file), model_keys(inputs, dims, shapes, values, state, trusted=trusted)
        )
    if kinds & {"torch.Module", "torch.ExportedProgram"}:
        examples = () if inputs is None else tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
        file = sources.torch_file(model, examples, name)
        # It was written a moment ago, in this process.
        return Model(
            name or _without_digest(file), str(file), model_keys(None, dims, shapes, values, state, trusted=True)
        )
    remedy = next(
        (remedy for start, remedy in IN_MEMORY.items() if any(kind.startswith(start) for kind in kinds)),
        "use a file's path, a PyTorch module, an ONNX model, or a model's name in a config",
    )
    raise InputError("load", f"an object of type {type(model).__name__} is not a model that tvmake reads", remedy)


def _load_by_name(text: str, keys: Mapping[str, Any], config: Path | None, name: str) -> Model:
    is_file = text.startswith(ZOO) or Path(text).is_file()
    file = config or (DEFAULT_CONFIG if not is_file and DEFAULT_CONFIG.is_file() else None)
    if file is not None:
        loaded = Model(text, config=file)
        models = loaded._config(file).networks
        if text in models:
            if given := next((key for key in keys if key != "trusted"), None):
                problem = f"model '{text}' has its inputs in the config"
                raise InputError(given, problem, f"write them into {file}, or load the model's file")
            return loaded
        if config or name_of(text) == text:
            raise InputError(str(file), f"has no model '{text}'", f"it has: {', '.join(models)}")
    model = Model("", text if text.startswith(ZOO) else str(Path(text).absolute()), keys)
    run = SingleRun(text, model=keys, name=name)
    run.check_config()
    model.name = run.model_name
    return model


def _nest(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a config has them: a key with dots is one below others."""
    from tvmake.config.reading.load import merge

    layer: dict[str, Any] = {}
    for key, value in options.items():
        for name in reversed(key.split(".")):
            value = {name: value}
        layer = merge(layer, value)
    return layer


def _target_text(target: Any) -> Any:
    """A target's keys in TVM's notation, for TVM's own targets too; values other than mappings are unchanged."""
    if type(target).__module__.startswith("tvm.") and type(target).__name__ == "Target":
        target = _plain_target(json.loads(str(target)))
    return json.dumps(dict(target), default=str) if isinstance(target, Mapping) else target


def _plain_target(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A target's attributes without those that TVM derives; a CPU is its own host."""
    has_host = "host" in keys and keys.get("kind") not in ("llvm", "c")
    host = {"host": _plain_target(keys["host"])} if has_host else {}
    return {name: value for name, value in keys.items() if name not in ("keys", "tag", "host")} | host


def _without_digest(file: Path) -> str:
    return file.stem.rpartition("-")[0]


def html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table for notebooks."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns) if any(columns) else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
