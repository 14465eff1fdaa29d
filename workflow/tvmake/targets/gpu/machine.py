"""Properties of a GPU that schedules need."""

from dataclasses import dataclass

import tvm

DESKTOP_CORES = 128
"""Multiprocessors of a large NVIDIA GPU."""

PHONE_CORES = 8
"""Typical number of shader cores of a phone's GPU."""

BYTES_PER_CYCLE = 24.0
"""Bandwidth of the last-level cache for each core, as on an H100."""

LANES = 128
"""Multiplications of a core in a cycle."""

LATENCY = 800.0
"""Cycles until a tile of operands arrives, including barriers."""

VECTOR_BYTES = 16
"""Maximum bytes that a thread moves at once."""

BUSY = 512
"""Threads per core that hide memory latency."""

RESIDENT_THREADS = 1024
"""Resident threads of a core, if kernels use the registers that tiles need."""


@dataclass(frozen=True)
class Gpu:
    """A GPU's limits and approximate number of cores."""

    threads: int
    """Maximum threads of a work group."""
    shared_bytes: int
    """Shared memory of a work group, in bytes."""
    cores: int

    @property
    def busy_threads(self) -> int:
        """Threads that fill the GPU."""
        return self.cores * BUSY


def gpu(target: "tvm.target.Target") -> Gpu:
    threads = int(target.attrs.get("max_threads_per_block", target.attrs.get("max_num_threads", 256)))
    shared = int(target.attrs.get("max_shared_memory_per_block", 16384))
    is_phone = bool({"adreno", "mali"} & {str(key) for key in target.keys})
    return Gpu(min(threads, 256), shared, PHONE_CORES if is_phone else DESKTOP_CORES)


def compute_capability(target: "tvm.target.Target") -> int:
    """Ten times the compute capability of a CUDA target; 0 if unknown."""
    digits = "".join(filter(str.isdigit, str(target.attrs.get("arch", ""))))
    return int(digits or 0)
