"""A package in this process: ``tvmake.open("package.tar").run({...})``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from threading import RLock, local
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import TensorSpec
from tvmake.benchmark.ops import KernelRow
from tvmake.benchmark.statistics import LatencyStatistics
from tvmake.errors import InputError
from tvmake.options import Positive
from tvmake.process.output import counted
from tvmake.process.own_cores import stay_on_own_cores
from tvmake.process.tvm_import import import_tvm
from tvmake.running.arguments import check_is_no_other, checked, path_of
from tvmake.running.inputs import Arrays, Fill, as_array, described, fitting

if TYPE_CHECKING:
    from tvmake.device.local.worker import LoadedPackage
    from tvmake.frontend.options import ImportOptions
    from tvmake.validate.numerics import NumericsReport


@runtime_checkable
class SourceModel(Protocol):
    """A model that can be run in its own framework: :class:`tvmake.Model` is one."""

    directory: Path
    """Where paths of it begin."""

    def import_options(self) -> "ImportOptions":
        """How it is read."""
        ...


BIG_CORES = 1
"""Of TVM's ``config_threadpool``: the faster cores first, where there are two kinds; as it does by itself."""

Given = Mapping[str, np.ndarray] | np.ndarray | None

Percent = Annotated[float, Field(ge=0, le=100)]
Seed = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Benchmark:
    """Latency of a package; times are in ms."""

    samples_ms: tuple[float, ...]
    """In the order that they were taken; each the mean of ``number`` runs."""
    statistics: LatencyStatistics
    load_ms: float
    """From opening the package to being ready to run."""
    first_run_ms: float
    kernels: tuple[KernelRow, ...] = ()
    """Each kernel's own time, the most expensive first; none unless asked for."""

    @property
    def median_ms(self) -> float:
        """The median of the samples."""
        return self.statistics.p50_ms

    def percentile(self, percent: float) -> float:
        """A percentile of the samples, interpolated linearly; 0 is the fastest, 100 the slowest."""
        return float(np.percentile(self.samples_ms, checked("percent", Percent, percent)))

    def __repr__(self) -> str:
        found = self.statistics
        return f"<tvmake.Benchmark median {found.p50_ms:.4g} ms, p90 {found.p90_ms:.4g} ms, {counted(found.samples, 'sample')}>"

    def _repr_html_(self) -> str:
        found = self.statistics
        figures = {"median": found.p50_ms, "p90": found.p90_ms, "p99": found.p99_ms, "minimum": found.min_ms}
        rows = [(name, f"{value:.4g} ms") for name, value in figures.items()] + [("samples", str(found.samples))]
        rows += [("noise", reason) for reason in found.noise]
        return _table("latency", rows)


class Package:
    """A package, whose code is loaded into this process when it first runs, for as long as the process lives.

    Its digests are checked before that; that its author means well is not: run packages of your own.

    Threads may share one: their runs take turns. For runs at the same time, open the file once for each thread. It cannot be copied or
    pickled; another process opens the file itself.

    Args:
        file: a ``package.tar``.
        threads: of the CPU that kernels may use, whichever thread runs it; None leaves it to TVM, which takes all cores.

    Raises:
        InputError: the package is damaged, or there is none; or ``threads`` is no number from 1 on.
    """

    def __init__(self, file: Path | str, threads: int | None = None):
        from tvmake.device import store

        self.file = path_of("open", "a package.tar", file)
        check_is_no_other(self.file)
        self._place_of_file = self.file.absolute()  # whatever directory the process works in later
        self.threads: int | None = checked("threads", Positive | None, threads)
        self._turn = RLock()  # TVM's virtual machine keeps inputs and outputs of one run
        self._place = store.put(self.file, store.store_root())
        self.manifest: Manifest = store.stored(self._place)

    @cached_property
    def _loaded(self) -> "LoadedPackage":
        import platform
        import sys

        from tvmake.artifact.package import LIBRARY
        from tvmake.device import store
        from tvmake.device.architecture import check_library

        store.stored(self._place)  # it may have been altered since this package was opened
        if sys.platform == "linux":
            check_library(self._place / LIBRARY, platform.machine(), str(self.file))
        import_tvm()
        return _loaded(self._place, self.manifest)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the inputs, in order; an extent that is a name is open."""
        return self.manifest.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the outputs, in order."""
        return self.manifest.signature.outputs

    def run(self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None) -> Arrays:
        """Run the network once; a call from another thread waits for this one.

        Args:
            inputs: arrays by the inputs' names, or the first input.
            more: the following inputs, in order.
            fill: ``random``, ``zeros`` or ``ones`` for inputs that are not given; without it all have to be.

        Returns:
            The outputs by their names in the source model, as arrays of their own.

        Raises:
            InputError: an input is unknown, missing, or of another shape or type, or has values that its type cannot hold; or the
                package's code is not what its manifest tells.
            DeviceError: the package is for another processor, or for a device that this machine does not have.
        """
        from tvmake.device.code import check_outputs, checking_arguments

        arrays = fitting(self.manifest.signature, self._given(inputs, more), fill)
        with self._turn:
            _use_threads(self.threads)
            with checking_arguments():
                outputs = self._loaded.outputs_of(list(arrays.values()))
        check_outputs(outputs, self.manifest)
        return {spec.name: value for spec, value in zip(self.outputs, outputs, strict=True)}

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
        """Time the package here, in a process of its own.

        Args:
            inputs: what to run it on; random arrays when left out.
            repeat: samples to take.
            number: runs that are averaged into one sample.
            warmup: runs before the first sample.
            min_repeat_ms: raise ``number`` until one sample takes this long.
            profile: also time each kernel, in separate runs.

        Raises:
            InputError: an argument or an input does not fit, or the package's file has changed since it was opened.
            DeviceError: this machine cannot run the package.
        """
        from tvmake.config.benchmark import Measurement
        from tvmake.config.device import LocalDeviceConfig
        from tvmake.device.connect import connect
        from tvmake.running.run import run

        self._check_file()
        arrays = fitting(self.manifest.signature, self._given(inputs, ()), "random" if inputs is None else None)
        wanted = {"repeat": repeat, "number": number, "warmup": warmup, "min_repeat_ms": min_repeat_ms}
        how = checked("", Measurement, {**wanted, "profile_ops": profile})
        device = connect("local", LocalDeviceConfig(threads=self.threads))
        done = run(self._place_of_file, self.manifest, device, arrays, how)
        assert done.latency is not None
        timing = done.result.timing
        return Benchmark(
            tuple(timing.samples_ms), done.latency, timing.load_ms, timing.first_run_ms, tuple(done.kernels)
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
        """Compare what the package gives with a reference.

        Args:
            reference: the outputs that are expected of ``inputs``, by name, or the array of the only one; or the source model
                (``tvmake.load(…)``), which is run in its own framework.
            inputs: what ``reference`` is the outputs of; for a source model random inputs are drawn.
            samples: how many inputs to draw.
            seed: of the inputs that are drawn.
            goals: bounds, by the keys of ``validation.goals`` in a config, over the precision's own.

        Returns:
            Figures, and the goals that are missed; ``passed`` is the verdict.

        Raises:
            InputError: inputs or reference do not fit the package, a goal is unknown, or another argument makes no sense.
            MachineError: the source model's framework is not installed.
            DeviceError: this machine cannot run the package.
        """
        from tvmake.running.comparison import against_arrays, against_model, goals_of

        if reference is None or isinstance(reference, str | Path | Package):
            source = repr(str(reference)) if isinstance(reference, str | Path) else "…"
            remedy = f"give tvmake.load({source}), or the outputs that are expected"
            raise InputError("reference", f"a {type(reference).__name__} is no model and no arrays", remedy)
        if isinstance(reference, SourceModel) and inputs is not None:
            remedy = "leave them out; for inputs of yours give what the model makes of them as reference"
            raise InputError("inputs", "for a source model random inputs are drawn", remedy)
        bounds = goals_of(self.manifest.precision, goals or {}, self.manifest.is_source_quantized)
        if isinstance(reference, SourceModel):
            samples, seed = checked("samples", Positive, samples), checked("seed", Seed, seed)
            options = reference.import_options()
            return against_model(self.run, self.manifest.signature, options, reference.directory, samples, seed, bounds)
        return against_arrays(self.run(inputs), self._expected(reference), bounds)

    def _given(self, inputs: Given, more: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        if inputs is None or isinstance(inputs, Mapping):
            if more:
                raise InputError("inputs", "are given by name and by place", "give one mapping, or arrays in order")
            return dict(inputs or {})
        arrays = (inputs, *more)
        if len(arrays) > len(self.inputs):
            names = "; ".join(map(described, self.inputs))
            raise InputError("inputs", f"{len(arrays)} were given", f"the package takes {names}")
        return {spec.name: array for spec, array in zip(self.inputs, arrays, strict=False)}

    def _expected(self, reference: Given) -> dict[str, np.ndarray]:
        names = [spec.name for spec in self.outputs]
        if isinstance(reference, Mapping):
            given = {name: as_array(f"reference '{name}'", array) for name, array in reference.items()}
        else:
            given = {} if reference is None else {names[0]: as_array("reference", reference)}
        unknown = [name for name in given if name not in names]
        if unknown or not given:
            problem = f"the package has no output '{unknown[0]}'" if unknown else "there is none to compare with"
            raise InputError("reference", problem, f"it gives {'; '.join(map(described, self.outputs))}")
        return given

    def _check_file(self) -> None:
        """Refuse to time another package than the one that was opened."""
        from tvmake.artifact.package import inspect

        if inspect(self._place_of_file).own_sha256 != self.manifest.own_sha256:
            raise InputError(str(self.file), "has changed since it was opened", "open it again")

    def __reduce__(self) -> NoReturn:
        again = f"tvmake.open({str(self.file)!r})"
        raise TypeError(f"a package that is open cannot be copied or pickled; open it again: {again}")

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(described, specs)) for specs in (self.inputs, self.outputs))
        return f"<tvmake.Package {self._variant()}: {inputs} -> {outputs}>"

    def _repr_html_(self) -> str:
        rows = [("input", described(spec)) for spec in self.inputs]
        rows += [("output", described(spec)) for spec in self.outputs]
        return _table(self._variant(), rows)

    def _variant(self) -> str:
        return f"{self.manifest.model}/{self.manifest.precision}/{self.manifest.target_name}"


class _Pool(local):
    """TVM's pool of worker threads, of which each thread that runs kernels has one."""

    def __init__(self) -> None:
        stay_on_own_cores()
        self.threads: int | None = None
        """As it was set last; None as it is made."""


_pool = _Pool()


def _use_threads(threads: int | None) -> None:
    """Have kernels that this thread runs from now on use so many threads; None for all cores."""
    if threads != _pool.threads:
        import_tvm()
        import tvm

        tvm.get_global_func("runtime.config_threadpool")(BIG_CORES, threads or 0)
        _pool.threads = threads


def _loaded(place: Path, manifest: Manifest) -> "LoadedPackage":
    from tvmake.device.local.worker import LoadedPackage
    from tvmake.errors import DeviceError

    try:
        return LoadedPackage(place, manifest)
    except (OSError, RuntimeError) as error:
        line = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise DeviceError(
            str(place), f"cannot be loaded here: {line}", "`tvmake doctor` says what this machine has"
        ) from None


def _table(caption: str, rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(caption)}</caption>{cells}</table>"
