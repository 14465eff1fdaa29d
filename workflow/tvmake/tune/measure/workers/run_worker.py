"""Worker that loads a kernel's library on this machine and times it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvmake.codegen.compiler_errors import explain
from tvmake.native.runtime_libraries import load_runtime
from tvmake.tune.measure.cuda.graph import CaptureRefused, Driver, time_in_graph
from tvmake.tune.measure.kernel import CUDA, ENTRY, GRAPH, LAUNCHES, TIMER, ArgumentSet, Loop, TensorSpec

import tvm_ffi  # isort: skip

FILL = "tvm.contrib.random.random_fill_for_measure"
"""TVM's function for random values; floats from 1 to 10, so that none is denormal. It is in libtvm_runtime_extra."""

INDEX_TYPES = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64"})
"""Dtypes of possible indices: TVM's function fills them with float bits, and a kernel that gathers would crash."""

CPU = "cpu"

Fill = Callable[["tvm.runtime.Tensor"], None]


@dataclass(frozen=True)
class RunOptions:
    device: str
    """The runtime's name for the kind of device."""
    loop: Loop


@dataclass(frozen=True)
class Load:
    """Request: open a library and allocate all arguments of the kernel."""

    library: Path
    arguments: tuple[ArgumentSet, ...]


@dataclass(frozen=True)
class Loaded:
    """Answer: ready to time."""


@dataclass(frozen=True)
class Time:
    """Request: time the loaded kernel."""


@dataclass(frozen=True)
class Timed:
    samples_s: tuple[tuple[float, ...], ...]
    """Seconds per run, for each set of arguments."""
    timer: str | None = None
    """The timing method, if there is a choice."""

    @property
    def conditions(self) -> dict[str, str]:
        return {} if self.timer is None else {TIMER: self.timer}


class RunWorker:
    """Times kernels on this machine."""

    def __init__(self, options: RunOptions):
        self.options = options
        load_runtime(options.device)
        self.fill = tvm_ffi.get_global_func(FILL)
        self.kernel: tuple[Any, Any, list[list[Any]]] | None = None

    def answer(self, request: Load | Time) -> Loaded | Timed:
        if isinstance(request, Load):
            device = tvm.runtime.device(self.options.device, 0)
            module = tvm.runtime.load_module(str(request.library))
            sets = [allocate(arguments.tensors, device, self.fill) for arguments in request.arguments]
            self.kernel = module, device, sets
            if self.options.device != CPU:
                # Drivers compile and upload a kernel in its first call; other jobs need not pause for it. With dynamic
                # dimensions, each size may have its own code.
                for arguments in sets:
                    module[ENTRY](*arguments)
                device.sync()
            return Loaded()
        assert self.kernel is not None
        module, device, sets = self.kernel
        if self.options.device != CUDA:
            return Timed(tuple(time_kernel(module, device, arguments, self.options.loop) for arguments in sets))
        driver = Driver()
        timed = [time_on_cuda(module, device, arguments, self.options.loop, driver) for arguments in sets]
        return Timed(tuple(samples for samples, _ in timed), timed[0][1])

    def explain(self, error: Exception) -> str:
        return explain(error)


def allocate(specs: tuple[TensorSpec, ...], device: Any, fill: Fill | None) -> list[Any]:
    """Allocate arguments with values.

    Args:
        fill: fills a tensor on its device; without it all values are created here and copied.
    """
    return [_tensor(spec, device, fill) for spec in specs]


def _tensor(spec: TensorSpec, device: Any, fill: Fill | None) -> Any:
    if spec.dtype in INDEX_TYPES:
        # One is a valid index of every axis longer than one, and a valid divisor.
        return tvm.runtime.tensor(np.ones(spec.shape, spec.dtype), device)
    if spec.scope != "global":
        tensor = tvm.runtime.empty(spec.shape, spec.dtype, device, spec.scope)
        tensor.copyfrom(_values(spec))
        return tensor
    tensor = tvm.runtime.empty(spec.shape, spec.dtype, device)
    if fill is not None:
        fill(tensor)
    else:
        tensor.copyfrom(_values(spec))
    return tensor


def _values(spec: TensorSpec) -> np.ndarray:
    random = np.random.default_rng(0)
    if spec.dtype.startswith("float"):
        return random.uniform(1, 10, spec.shape).astype(spec.dtype)
    return random.integers(0, 2 if spec.dtype == "bool" else 10, spec.shape).astype(spec.dtype)


def time_kernel(module: Any, device: Any, arguments: list[Any], loop: Loop) -> tuple[float, ...]:
    """Seconds per run, one value per repeat."""
    evaluator = module.time_evaluator(
        ENTRY,
        device,
        number=loop.number,
        repeat=loop.repeat,
        min_repeat_ms=loop.min_repeat_ms,
        cooldown_interval_ms=loop.cooldown_ms,
        repeats_to_cooldown=1,
    )
    device.sync()
    return tuple(float(value) for value in evaluator(*arguments).results)


def time_on_cuda(
    module: Any, device: Any, arguments: list[Any], loop: Loop, driver: Driver
) -> tuple[tuple[float, ...], str]:
    """Time in a graph, or by single launches if the kernel cannot be captured; the samples and the timing method."""
    try:
        return time_in_graph(partial(module[ENTRY], *arguments), device, loop, driver), GRAPH
    except CaptureRefused as refused:
        return time_kernel(module, device, arguments, loop), f"{LAUNCHES} ({refused})"
