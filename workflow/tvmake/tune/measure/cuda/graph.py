"""Timing a CUDA kernel in a CUDA graph: without the launches, which take longer than short kernels do.

A launch takes a process about 4 µs. Kernels of 3 µs, timed one launch after the other, look alike, and packages that launch
graphs have no such waits. Here the launches of a kernel are recorded once, and the graph is replayed. As in TVM's own loop every run
has the same arguments, so that caches are as warm for each candidate.
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
"""NVIDIA's driver, which TVM's CUDA runtime has loaded."""

MOST_LAUNCHES = 128
"""In a graph: what passes between two replays, 1 to 2 µs, is 1 % of it then."""

GRAPH_S = 1e-3
"""How long a replay takes, about, where that needs fewer launches."""

SHORTEST_S = 1e-6
"""That a launch takes."""

TRIES = 3
"""Runs that the length of one is estimated by."""

NON_BLOCKING, RELAXED, DEFAULT = 1, 2, 0
"""CUDA's flags: of a stream that does not wait for others, of a capture during which memory may be allocated, of events and graphs."""


class CudaError(RuntimeError):
    """A function of the driver failed."""


class CaptureRefused(Exception):
    """A kernel's launches cannot be recorded; the text says why, in one line."""


class Driver:
    """The functions of NVIDIA's driver that are used here, for the context that is current in this thread. Handles are numbers.

    Args:
        library: the driver's name or path.

    Raises:
        OSError: there is none.
    """

    def __init__(self, library: str = LIBRARY):
        self._library = ctypes.CDLL(library)

    def stream(self) -> int:
        """A stream that does not wait for others."""
        return self._made("cuStreamCreate", NON_BLOCKING)

    def event(self) -> int:
        """A moment on a stream."""
        return self._made("cuEventCreate", DEFAULT)

    def recorded(self, stream: int) -> int:
        """The graph of what was launched on a stream since its capture began, which this ends."""
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return graph.value or 0

    def executable(self, graph: int) -> int:
        """A graph that can be launched."""
        return self._made("cuGraphInstantiateWithFlags", graph, DEFAULT)

    def milliseconds(self, start: int, end: int) -> float:
        """Between two events that are over."""
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
        return elapsed.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CudaError: it fails.
        """
        # Handles take 64 bits, and flags do no harm in as many.
        status = self._library[name](*(ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments))
        if status:
            error = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(error))
            raise CudaError(f"{name}: {(error.value or b'').decode() or status}")

    def _made(self, name: str, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value or 0


def timed_in_graph(run: Callable[[], object], device: Any, loop: Loop, driver: Driver) -> tuple[float, ...]:
    """Seconds per run, one value per repeat.

    Args:
        run: launches the kernel on TVM's current stream. It has run before: drivers load code and TVM memory at the first run.
        device: where, as TVM has it.
        loop: its ``number`` is the least.

    Raises:
        CaptureRefused: the launches cannot be recorded.
        CudaError: the kernel fails.
    """
    stream = driver.stream()
    try:
        with tvm_ffi.use_raw_stream(device, stream), _Stopwatch(driver, stream) as stopwatch:
            once_s = stopwatch.seconds(run, TRIES)
            launches = max(1, min(math.ceil(GRAPH_S / max(once_s, SHORTEST_S)), MOST_LAUNCHES))
            with _recorded(run, launches, stream, driver) as replay:
                return _samples(partial(stopwatch.seconds, replay), launches, loop)
    finally:
        driver.call("cuStreamDestroy_v2", stream)


def _samples(seconds: Callable[[int], float], launches: int, loop: Loop) -> tuple[float, ...]:
    """Seconds per run, given those of a replay of a graph with so many launches, on average over a number of replays."""
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
        """Of one run, of so many in a row."""
        start, end = self._events
        self._driver.call("cuEventRecord", start, self._stream)
        for _ in range(times):
            run()
        self._driver.call("cuEventRecord", end, self._stream)
        self._driver.call("cuEventSynchronize", end)
        return self._driver.milliseconds(start, end) / 1e3 / times


@contextmanager
def _recorded(run: Callable[[], object], launches: int, stream: int, driver: Driver) -> Iterator[Callable[[], None]]:
    """What launches a kernel so many times at once."""
    try:
        graph = _graph(run, launches, stream, driver)
    except Exception as error:  # TVM's, of whatever kind, where a kernel does what cannot be recorded
        raise CaptureRefused((str(error).strip().splitlines() or [type(error).__name__])[-1]) from error
    try:
        yield lambda: driver.call("cuGraphLaunch", graph, stream)
    finally:
        driver.call("cuGraphExecDestroy", graph)


def _graph(run: Callable[[], object], launches: int, stream: int, driver: Driver) -> int:
    """Launches as a graph that can be launched. The capture has ended, whatever happens."""
    driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
    try:
        for _ in range(launches):
            run()
    except BaseException:
        with suppress(CudaError):  # which says that the capture was in vain
            driver.call("cuGraphDestroy", driver.recorded(stream))
        raise
    graph = driver.recorded(stream)
    try:
        return driver.executable(graph)
    finally:
        driver.call("cuGraphDestroy", graph)
