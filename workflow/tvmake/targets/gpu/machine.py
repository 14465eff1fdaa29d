"""What schedules have to know of a GPU."""

from dataclasses import dataclass

import tvm

DESKTOP_CORES = 128
"""Multiprocessors of a large NVIDIA GPU; smaller ones take more turns."""

PHONE_CORES = 8
"""Shader cores of a phone's GPU, about."""

BYTES_PER_CYCLE = 24.0
"""That the last cache delivers to each core in a cycle, as on an H100."""

LANES = 128
"""Multiplications of a core in a cycle."""

LATENCY = 800.0
"""Cycles for a tile of operands to arrive, with the barriers around it."""

VECTOR_BYTES = 16
"""That a thread moves at once, at most."""

RESIDENT_THREADS = 1024
"""Of a core, when kernels use the registers that tiles need."""


@dataclass(frozen=True)
class Gpu:
    """A GPU's limits, and roughly how wide it is."""

    threads: int
    """Of a work group."""
    shared_bytes: int
    """Of a work group."""
    cores: int


def gpu(target: "tvm.target.Target") -> Gpu:
    """The GPU of a target."""
    threads = int(target.attrs.get("max_threads_per_block", target.attrs.get("max_num_threads", 256)))
    shared = int(target.attrs.get("max_shared_memory_per_block", 16384))
    is_phone = bool({"adreno", "mali"} & {str(key) for key in target.keys})
    return Gpu(min(threads, 256), shared, PHONE_CORES if is_phone else DESKTOP_CORES)


def compute_capability(target: "tvm.target.Target") -> int:
    """Of a CUDA target, times ten; 0 where it is unknown."""
    digits = "".join(filter(str.isdigit, str(target.attrs.get("arch", ""))))
    return int(digits or 0)
