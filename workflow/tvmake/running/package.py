"""A package that is loaded into this process: ``tvmake.open("package.tar").run({...})``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol, Self, runtime_checkable

import numpy as np
from pydantic import Field

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import StateSpec, TensorSpec
from tvmake.artifact.states import PackageStates, StateKey
from tvmake.artifact.tokenizer_file import TOKENIZER
from tvmake.benchmark.ops import KernelRow
from tvmake.benchmark.statistics import LatencyStatistics
from tvmake.errors import InputError
from tvmake.options import Positive
from tvmake.process.cpu_affinity import disable_thread_binding
from tvmake.process.output import counted
from tvmake.running.arguments import path_of, validate_argument
from tvmake.running.inputs import Arrays, Fill, Given, as_array, describe_tensor, match_inputs
from tvmake.running.opened import Opened
from tvmake.running.session import Session

if TYPE_CHECKING:
    from tvmake.device.local.weights import Weights
    from tvmake.device.local.worker import LoadedPackage
    from tvmake.device.states import States
    from tvmake.frontend.options import ImportOptions
    from tvmake.validate.numerics import NumericsReport


@runtime_checkable
class SourceModel(Protocol):
    """A model that can run in its own framework, such as :class:`tvmake.Model`."""

    directory: Path
    """The base of the model's relative paths."""

    def import_options(self) -> "ImportOptions":
        """How to import it."""
        ...


BIG_CORES = 1
"""An affinity mode of TVM's ``config_threadpool``, and its default: the faster cores first."""

Percent = Annotated[float, Field(ge=0, le=100)]
Seed = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Benchmark:
    """Latency of a package; times are in ms."""

    samples_ms: tuple[float, ...]
    """In order of measurement; means of ``number`` runs each."""
    statistics: LatencyStatistics
    load_ms: float
    """The time from opening the package until it can run."""
    first_run_ms: float
    kernels: tuple[KernelRow, ...] = ()
    """The time of each kernel, the most expensive first; empty without profiling."""

    @property
    def median_ms(self) -> float:
        """The median of the samples."""
        return self.statistics.p50_ms

    def percentile(self, percent: float) -> float:
        """A percentile of the samples, interpolated linearly; 0 is the fastest, 100 the slowest."""
        return float(np.percentile(self.samples_ms, validate_argument("percent", Percent, percent)))

    def __repr__(self) -> str:
        statistics = self.statistics
        return f"<tvmake.Benchmark median {statistics.p50_ms:.4g} ms, p90 {statistics.p90_ms:.4g} ms, {counted(statistics.samples, 'sample')}>"

    def _repr_html_(self) -> str:
        statistics = self.statistics
        figures = {
            "median": statistics.p50_ms,
            "p90": statistics.p90_ms,
            "p99": statistics.p99_ms,
            "minimum": statistics.min_ms,
        }
        rows = [(name, f"{value:.4g} ms") for name, value in figures.items()] + [("samples", str(statistics.samples))]
        rows += [("noise", reason) for reason in statistics.noise]
        return _table("latency", rows)


class Package:
    """A package. Its first run loads its code into this process, where it stays.

    The package's digests are checked first. This does not protect against malicious authors: run only packages that you trust.

    Threads may share a package; its runs take turns. For parallel runs, open the file once in each thread. A package cannot be
    copied or pickled; other processes open the file themselves.

    ``package(image)`` and ``package.run(image=image)`` run it too. A ``with`` block closes it at the end.

    A package with several functions has their names in ``functions``: ``package["decode"]`` is one of them, and is used as a package
    with one network is. The functions share the package's weights, which are in memory once, and states of the same name, type and
    shape. A function's code is loaded when it is first needed. ``session``, ``reset``, ``snapshot`` and ``restore`` are about the
    states of all functions.

    Args:
        file: a ``package.tar``.
        threads: the number of CPU threads for kernels; default: TVM's, all cores.

    Raises:
        InputError: the package is missing or damaged, or ``threads`` is not a number of at least 1.
    """

    def __init__(self, file: Path | str, threads: int | None = None):
        self._name = ""
        self._opened = Opened(path_of("open", "a package.tar", file), threads)
        self._functions: dict[str, Package] = {name: self._function(name) for name in self._opened.networks if name}

    def _function(self, name: str) -> "Package":
        function = Package.__new__(Package)
        function._name, function._opened, function._functions = name, self._opened, {}
        return function

    @property
    def file(self) -> Path:
        """The package's file."""
        return self._opened.file

    @property
    def threads(self) -> int | None:
        """The number of CPU threads for kernels; None for TVM's, all cores."""
        return self._opened.threads

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the package's functions, in order; none if it has one network."""
        return tuple(self._functions)

    def __getitem__(self, function: str) -> "Package":
        """A function of the package. Its runs continue the same states as those of the package's other functions.

        Raises:
            InputError: the package has no such function.
        """
        if function in self._functions:
            return self._functions[function]
        if not self._functions:
            raise InputError(
                str(self.file), f"has no function {function!r}, only one network", "use the package itself"
            )
        raise InputError(str(self.file), f"has no function {function!r}", f"its functions are {self._function_names()}")

    @property
    def manifest(self) -> Manifest:
        """The content of ``mod.json`` of the network.

        Raises:
            InputError: the package has several functions; each has its own.
        """
        if self._functions:
            first = next(iter(self._functions))
            problem = f"has several functions: {self._function_names()}"
            raise InputError(str(self.file), problem, f"choose one: package[{first!r}]")
        return self._opened.networks[self._name]

    @cached_property
    def _own(self) -> Session:
        """The session of the package's own runs, which its functions share."""
        return self._session_of(self._opened.values)

    @cached_property
    def _loaded(self) -> "LoadedPackage":
        import platform
        import sys

        from tvmake.artifact.package import LIBRARY
        from tvmake.device import store
        from tvmake.device.architecture import check_library

        manifest, directory = self.manifest, self._opened.directory
        store.read_any_stored_manifest(directory)  # it may have been altered since the package was opened
        if sys.platform == "linux":
            check_library(directory / self._name / LIBRARY, platform.machine(), str(self.file))
        return _load(directory / self._name, manifest, self._opened.weights(self._name))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the inputs, in order; a dimension with a name is dynamic."""
        return self.manifest.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the outputs, in order."""
        return self.manifest.signature.outputs

    @property
    def states(self) -> tuple[StateSpec, ...]:
        """Names, shapes and types of the tensors that the package keeps from run to run; they begin as zeros."""
        return self.manifest.signature.states

    @property
    def tokenizer(self) -> Path | None:
        """The tokenizer.json that the package has, in this machine's store; None if it has none."""
        file = self._opened.directory / self._name / TOKENIZER
        return file if TOKENIZER in self.manifest.files else None

    def session(self) -> Session:
        """A sequence of runs with states of its own, over the same weights. ``session["decode"]`` runs a function of the package.

        Raises:
            InputError, DeviceError: the package cannot be loaded (:meth:`run`).
        """
        return self._session_of({})

    def _session_of(self, values: dict[StateKey, Any]) -> Session:
        """A session with these values of states, of which none may have begun."""
        with self._opened.turn:
            self._check_open()
            if not self._functions:
                _ = self._loaded
            return Session(self, values)

    def _states_of(self, values: dict[StateKey, Any]) -> "States":
        """The states of the network in a session; the caller has the turn."""
        return self._loaded.new_states(values, self._opened.state_keys(self._name))

    @property
    def _package_states(self) -> PackageStates:
        return self._opened.states

    def reset(self) -> None:
        """Restart the states."""
        self._own.reset()

    def snapshot(self) -> bytes:
        """The states' values (:meth:`tvmake.Session.snapshot`)."""
        return self._own.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Continue with the states of a snapshot (:meth:`tvmake.Session.restore`).

        Raises:
            InputError: it is damaged, or of another package.
        """
        self._own.restore(snapshot)

    def close(self) -> None:
        """Release the weights and the memory of runs; a package that is closed does not run again, nor do its functions.

        Its code stays loaded as long as the process lives. A call waits for the end of a run in another thread.
        """
        with self._opened.turn:
            self._opened.close()
            for package in (self, *self._functions.values()):
                package.__dict__.pop("_own", None)
                package.__dict__.pop("_loaded", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(
        self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None, **named: np.ndarray
    ) -> Arrays:
        """Run the network once, as :meth:`run` does."""
        return self.run(inputs, *more, fill=fill, **named)

    def run(self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None, **named: np.ndarray) -> Arrays:
        """Run the network once; a call from another thread waits for this one. States continue those of the run before.

        Args:
            inputs: arrays by the inputs' names, or the first input. Tensors of PyTorch are detached.
            more: the other inputs, in order.
            fill: ``random``, ``zeros`` or ``ones`` for missing inputs; default: all inputs are required.
            named: inputs whose names are identifiers: ``run(image=array)``.

        Returns:
            The outputs by their names in the source model, as new arrays.

        Raises:
            InputError: an input is unknown, missing, or has another shape or type, or values that its type cannot represent; or the
                package's code does not match its manifest.
            DeviceError: the package is for another processor, or for a device that this machine does not have.
        """
        return self._own.run(inputs, *more, fill=fill, **named)

    def _run_with(
        self,
        states: "Callable[[], States]",
        values: dict[StateKey, Any],
        inputs: Given,
        more: tuple[np.ndarray, ...],
        fill: Fill | None,
        named: Mapping[str, np.ndarray],
    ) -> Arrays:
        """Run the network once with the states of a session, which ``values`` has; the rest as for :meth:`run`."""
        from tvmake.device.code import check_outputs, checking_arguments

        given = self._name_inputs(inputs, more, named)
        if linked := self._linked:
            given = self._add_linked(given, linked, values, is_filled=fill is not None)
        arrays = match_inputs(self.manifest.signature, given, fill)
        with self._opened.turn:
            self._check_open()
            _use_threads(self.threads)
            with checking_arguments():
                outputs = self._loaded.outputs_of(list(arrays.values()), states())
            check_outputs(outputs, self.manifest)
            results = {spec.name: value for spec, value in zip(self.outputs, outputs, strict=True)}
            self._opened.keep_outputs(self._name, results, values)
        return results

    @cached_property
    def _linked(self) -> dict[str, tuple[StateKey, str]]:
        """The inputs that another function gives, with their keys in a session and this function."""
        return self._opened.linked_inputs(self._name)

    def _add_linked(
        self,
        given: Mapping[str, np.ndarray],
        linked: Mapping[str, tuple[StateKey, str]],
        values: Mapping[StateKey, Any],
        *,
        is_filled: bool,
    ) -> dict[str, np.ndarray]:
        """The inputs with those that other functions gave in this session.

        Raises:
            InputError: a function has not given one yet.
        """
        known = {alias: spec.name for spec in self.inputs for alias in (spec.relax_name, spec.name)}
        present = {known.get(name, name) for name in given}
        kept = {name: values[key] for name, (key, _) in linked.items() if key in values and name not in present}
        missing = [name for name in linked if name not in kept and name not in present]
        if missing and not is_filled:
            function = linked[missing[0]][1]
            problem = f"no value for '{missing[0]}', an output of the function '{function}' of this package"
            raise InputError("inputs", problem, f"run {function!r} first, in the same session, or pass the input")
        return {**kept, **given}

    def benchmark(
        self,
        inputs: Given = None,
        *,
        repeat: int = 20,
        number: int = 1,
        warmup: int = 3,
        min_repeat_ms: float = 0,
        profile: bool = False,
    ) -> Benchmark:
        """Time the package on this machine, in a separate process.

        Args:
            inputs: the inputs to use; default: random arrays.
            repeat: the number of samples.
            number: the number of runs that are averaged into one sample.
            warmup: the number of runs before the first sample.
            min_repeat_ms: raise ``number`` until one sample takes this long.
            profile: also time each kernel, in separate runs.

        Raises:
            InputError: an argument or an input is invalid, or the package's file has changed since it was opened.
            DeviceError: this machine cannot run the package.
        """
        from tvmake.config.benchmark import Measurement
        from tvmake.config.device import LocalDeviceConfig
        from tvmake.device.connect import connect
        from tvmake.device.function_packages import put_function
        from tvmake.running.run import run

        self._check_file()
        fill: Fill | None = "random" if inputs is None else None
        arrays = match_inputs(self.manifest.signature, self._name_inputs(inputs, (), {}), fill)
        options = {"repeat": repeat, "number": number, "warmup": warmup, "min_repeat_ms": min_repeat_ms}
        how = validate_argument("", Measurement, {**options, "profile_ops": profile})
        device = connect("local", LocalDeviceConfig(threads=self.threads))
        file, manifest = self._opened.absolute_file, self.manifest
        if self._name:
            file, manifest = put_function(file, self._name)
        finished = run(file, manifest, device, [arrays], how)
        assert finished.latency is not None
        timing = finished.result.timing
        return Benchmark(
            tuple(timing.samples_ms), finished.latency, timing.load_ms, timing.first_run_ms, tuple(finished.kernels)
        )

    def validate(
        self,
        reference: "Given | SourceModel",
        inputs: Given = None,
        *,
        samples: int = 16,
        seed: int = 0,
        goals: Mapping[str, Any] | None = None,
    ) -> "NumericsReport":
        """Compare the package's outputs with a reference.

        Args:
            reference: the expected outputs for ``inputs``, by name, or the array of the only one; or the source model
                (``tvmake.load(…)``), which runs in its own framework.
            inputs: the inputs of ``reference``; for a source model random inputs are generated.
            samples: the number of inputs to generate.
            seed: the seed of generated inputs.
            goals: bounds, by the keys of ``validation.goals`` in a config, which override the precision's.

        Returns:
            Figures, and the missed goals; ``passed`` is the verdict.

        Raises:
            InputError: inputs or reference do not match the package, a goal is unknown, or an argument is invalid.
            MachineError: the source model's framework is not installed.
            DeviceError: this machine cannot run the package.
        """
        from tvmake.running.comparison import against_arrays, against_model, goals_of

        if reference is None or isinstance(reference, str | Path | Package):
            source = repr(str(reference)) if isinstance(reference, str | Path) else "…"
            remedy = f"use tvmake.load({source}), or the expected outputs"
            raise InputError("reference", f"a {type(reference).__name__} is neither a model nor arrays", remedy)
        if isinstance(reference, SourceModel) and inputs is not None:
            remedy = "leave them out; to use your inputs, pass the model's outputs for them as reference"
            raise InputError("inputs", "a source model is compared on random inputs", remedy)
        bounds = goals_of(self.manifest.precision, goals or {}, self.manifest.is_source_quantized)
        if isinstance(reference, SourceModel):
            samples, seed = validate_argument("samples", Positive, samples), validate_argument("seed", Seed, seed)
            options = reference.import_options()
            return against_model(
                self.session, self.manifest.signature, options, reference.directory, samples, seed, bounds
            )
        return against_arrays(self.session().run(inputs), self._name_outputs(reference), bounds)

    def _name_inputs(
        self, inputs: Given, more: tuple[np.ndarray, ...], named: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        if ((more or named) and isinstance(inputs, Mapping)) or (named and inputs is not None):
            remedy = "pass one mapping, arrays in order, or arrays by keyword"
            raise InputError("inputs", "are passed in two ways", remedy)
        if inputs is None or isinstance(inputs, Mapping):
            return dict(inputs or named)
        arrays = (inputs, *more)
        if len(arrays) > len(self.inputs):
            names = "; ".join(map(describe_tensor, self.inputs))
            raise InputError("inputs", f"{len(arrays)} were passed", f"the package takes {names}")
        return {spec.name: array for spec, array in zip(self.inputs, arrays, strict=False)}

    def _name_outputs(self, reference: Given) -> dict[str, np.ndarray]:
        names = [spec.name for spec in self.outputs]
        if isinstance(reference, Mapping):
            arrays = {name: as_array(f"reference '{name}'", array) for name, array in reference.items()}
        else:
            arrays = {} if reference is None else {names[0]: as_array("reference", reference)}
        unknown = [name for name in arrays if name not in names]
        if unknown or not arrays:
            problem = f"the package has no output '{unknown[0]}'" if unknown else "there is no output to compare"
            raise InputError("reference", problem, f"its outputs are {'; '.join(map(describe_tensor, self.outputs))}")
        return arrays

    def _check_open(self) -> None:
        if self._opened.is_closed:
            raise InputError(str(self.file), "is closed", f"open it again: tvmake.open({str(self.file)!r})")

    def _check_file(self) -> None:
        """Refuse to time a package that is closed, or whose file changed after it was opened."""
        from tvmake.device.store import inspect_any_package

        self._check_open()
        if inspect_any_package(self._opened.absolute_file).own_sha256 != self._opened.manifest.own_sha256:
            raise InputError(str(self.file), "has changed since it was opened", "open it again")

    def _function_names(self) -> str:
        return ", ".join(self._functions)

    def __reduce__(self) -> NoReturn:
        again = f"tvmake.open({str(self.file)!r})"
        raise TypeError(f"an open package cannot be copied or pickled; open it again: {again}")

    def __repr__(self) -> str:
        if self._functions:
            return f"<tvmake.Package {self._variant()} with the functions {self._function_names()}>"
        inputs, outputs = (", ".join(map(describe_tensor, specs)) for specs in (self.inputs, self.outputs))
        kept = f", keeps {', '.join(map(describe_tensor, self.states))}" if self.states else ""
        return f"<tvmake.Package {self._variant()}: {inputs} -> {outputs}{kept}>"

    def _repr_html_(self) -> str:
        if self._functions:
            return _table(self._variant(), [("function", name) for name in self.functions])
        rows = [("input", describe_tensor(spec)) for spec in self.inputs]
        rows += [("output", describe_tensor(spec)) for spec in self.outputs]
        rows += [("state", describe_tensor(spec)) for spec in self.states]
        return _table(self._variant(), rows)

    def _variant(self) -> str:
        manifest = self._opened.manifest
        variant = f"{manifest.model}/{manifest.precision}/{manifest.target_name}"
        return f"{variant}[{self._name!r}]" if self._name else variant


class _Pool(local):
    """The size of TVM's pool of worker threads, of which each thread that runs kernels has its own."""

    def __init__(self) -> None:
        disable_thread_binding()
        self.threads: int | None = None
        """The last setting; None for the initial state."""


_pool = _Pool()


def _use_threads(threads: int | None) -> None:
    """Set the number of threads for kernels that this thread runs; None: all cores."""
    if threads != _pool.threads:
        import tvm

        tvm.get_global_func("runtime.config_threadpool")(BIG_CORES, threads or 0)
        _pool.threads = threads


def _load(directory: Path, manifest: Manifest, weights: "Weights") -> "LoadedPackage":
    from tvmake.device.local.worker import LoadedPackage
    from tvmake.errors import DeviceError

    try:
        return LoadedPackage(directory, manifest, weights)
    except (OSError, RuntimeError) as error:
        line = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise DeviceError(
            str(directory), f"cannot be loaded here: {line}", "`tvmake doctor` lists what this machine has"
        ) from None


def _table(caption: str, rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(caption)}</caption>{cells}</table>"
