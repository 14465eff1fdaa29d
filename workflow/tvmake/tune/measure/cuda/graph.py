"""Time a CUDA kernel in a CUDA graph, to exclude launches, which take longer than short kernels.

A launch takes a process about 4 µs. Kernels of 3 µs look alike if they are launched one by one, and packages that launch
graphs do not have this overhead. The launches of a kernel are captured once, and the graph is replayed. As in TVM's own
loop, all runs have the same arguments, so that caches are equally warm for all candidates.
"""

import ctypes
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tvmake.tune.measure.kernel import Loop

import tvm_ffi  # isort: skip

LIBRARY = "libcuda.so.1"
"""NVIDIA's driver library, which TVM's CUDA runtime has loaded."""

MOST_LAUNCHES = 128
"""Maximum launches in a graph; the gap between two replays, 1 to 2 µs, is then 1 %."""

GRAPH_S = 1e-3
"""Approximate duration of a replay, if fewer launches suffice."""

SHORTEST_S = 1e-6
"""Minimum assumed duration of a launch."""

TRIES = 3
"""Number of runs that estimate the duration of one."""

NON_BLOCKING, RELAXED, DEFAULT = 1, 2, 0
"""CUDA's flags: a non-blocking stream, a capture that allows memory allocation, and defaults of events and graphs."""


class CudaError(RuntimeError):
    """A function of the driver failed."""


class CaptureRefused(Exception):
    """A kernel's launches cannot be captured; the text is the reason, in one line."""


class Driver:
    """Functions of NVIDIA's driver for the current context of this thread. Handles are integers.

    Args:
        library: the driver's name or path.

    Raises:
        OSError: the driver is missing.
    """

    def __init__(self, library: str = LIBRARY):
        self._library = ctypes.CDLL(library)

    def stream(self) -> int:
        """Create a non-blocking stream."""
        return self._create("cuStreamCreate", NON_BLOCKING)

    def event(self) -> int:
        """Create an event."""
        return self._create("cuEventCreate", DEFAULT)

    def end_capture(self, stream: int) -> int:
        """End a stream's capture and return the graph."""
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return graph.value or 0

    def executable(self, graph: int) -> int:
        """Instantiate a graph."""
        return self._create("cuGraphInstantiateWithFlags", graph, DEFAULT)

    def milliseconds(self, start: int, end: int) -> float:
        """Return the time between two completed events."""
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
        return elapsed.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CudaError: the call fails.
        """
        # Handles take 64 bits; flags may be passed in 64 bits as well.
        status = self._library[name](
            *(ctypes.c_uint64(argument) if isinstance(argument, int) else argument for argument in arguments)
        )
        if status:
            error = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(error))
            raise CudaError(f"{name}: {(error.value or b'').decode() or status}")

    def _create(self, name: str, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value or 0


def time_in_graph(run: Callable[[], object], device: Any, loop: Loop, driver: Driver) -> tuple[float, ...]:
    """Return seconds per run, one value per repeat.

    Args:
        run: launches the kernel on TVM's current stream. It must have run before: drivers load code and TVM allocates memory in
            the first run.
        loop: its ``number`` is the minimum.

    Raises:
        CaptureRefused: the launches cannot be captured.
        CudaError: the kernel fails.
    """
    stream = driver.stream()
    try:
        with tvm_ffi.use_raw_stream(device, stream), _Stopwatch(driver, stream) as stopwatch:
            once_s = stopwatch.seconds(run, TRIES)
            launches = max(1, min(math.ceil(GRAPH_S / max(once_s, SHORTEST_S)), MOST_LAUNCHES))
            with _capture(run, launches, stream, driver) as replay:
                return _samples(partial(stopwatch.seconds, replay), launches, loop)
    finally:
        driver.call("cuStreamDestroy_v2", stream)


def _samples(seconds: Callable[[int], float], launches: int, loop: Loop) -> tuple[float, ...]:
    """Return seconds per run, from replays of a graph with a number of launches."""
    seconds(1)  # uploads the graph
    least_s = loop.min_repeat_ms / 1e3
    replays = math.ceil(loop.number / launches)
    while (replay_s := seconds(replays)) * replays < least_s:
        # As in TVM's loop: as many as are missing, and some more so that it ends.
        replays = max(math.ceil(least_s / max(replay_s, SHORTEST_S)), replays + replays // 8 + 1)
    samples = []
    for _ in range(loop.repeat):
        samples.append(seconds(replays) / launches)
        time.sleep(loop.cooldown_ms / 1e3)
    return tuple(samples)


class _Stopwatch:
    """Two events around work on a stream."""

    def __init__(self, driver: Driver, stream: int):
        self._driver, self._stream = driver, stream

    def __enter__(self) -> "_Stopwatch":
        self._events = [self._driver.event() for _ in range(2)]
        return self

    def __exit__(self, *_: object) -> None:
        for event in self._events:
            self._driver.call("cuEventDestroy_v2", event)

    def seconds(self, run: Callable[[], object], times: int) -> float:
        """Return the seconds of one of ``times`` consecutive runs."""
        start, end = self._events
        self._driver.call("cuEventRecord", start, self._stream)
        for _ in range(times):
            run()
        self._driver.call("cuEventRecord", end, self._stream)
        self._driver.call("cuEventSynchronize", end)
        return self._driver.milliseconds(start, end) / 1e3 / times


@contextmanager
def _capture(run: Callable[[], object], launches: int, stream: int, driver: Driver) -> Iterator[Callable[[], None]]:
    """Yield a function that launches a kernel a number of times at once."""
    try:
        graph = _graph(run, launches, stream, driver)
    except Exception as error:  # an error of TVM, of any type, if the kernel cannot be captured
        raise CaptureRefused((str(error).strip().splitlines() or [type(error).__name__])[-1]) from error
    try:
        yield lambda: driver.call("cuGraphLaunch", graph, stream)
    finally:
        driver.call("cuGraphExecDestroy", graph)


def _graph(run: Callable[[], object], launches: int, stream: int, driver: Driver) -> int:
    """Capture launches as an executable graph; the capture always ends."""
    driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
    try:
        for _ in range(launches):
            run()
    except BaseException:
        with suppress(CudaError):  # reports that the capture failed
            driver.call("cuGraphDestroy", driver.end_capture(stream))
        raise
    graph = driver.end_capture(stream)
    try:
        return driver.executable(graph)
    finally:
        driver.call("cuGraphDestroy", graph)
