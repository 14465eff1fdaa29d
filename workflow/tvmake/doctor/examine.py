"""Every check of the doctor, side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tvmake.doctor import compilers, devices, libraries, machine
from tvmake.doctor.check import Check

EXAMINATIONS: tuple[Callable[[], Check | list[Check]], ...] = (
    machine.machine,
    libraries.python,
    libraries.libraries,
    compilers.tvm,
    compilers.drivers,
    compilers.zig,
    compilers.android_ndk,
    compilers.emulator,
    devices.opencl,
    devices.adb,
    devices.tracker,
)


def examine(examinations: Sequence[Callable[[], Check | list[Check]]] = EXAMINATIONS) -> list[Check]:
    """Run the examinations and return their checks in order; most of them wait for other processes."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        results = list(pool.map(lambda examination: examination(), examinations))
    return [check for result in results for check in (result if isinstance(result, list) else [result])]
