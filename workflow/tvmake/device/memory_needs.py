"""Refuse a package that needs more memory than a process may use, before its weights are mapped and its states allocated.

Weights for the CPU are mapped from their file: the system drops their pages and reads them again, so they need address space, and no
memory of their own. States need both.
"""

import math
import resource
from collections.abc import Mapping
from pathlib import Path

from rich.filesize import decimal

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import Signature
from tvmake.artifact.states import StateKey, state_key
from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.errors import MachineError

GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
"""Where Linux mounts the hierarchy of cgroups, version 2."""


def check_address_space(networks: Mapping[str, Manifest], weight_bytes: int, where: str) -> None:
    """Refuse a package whose weights and states exceed this process's address space.

    Args:
        networks: by function; that of a package with one network has an empty name.
        weight_bytes: the size of mod.params, which is mapped as a whole.

    Raises:
        MachineError: they do not fit.
    """
    free = _free_address_space()
    states: dict[StateKey, int] = {}
    for network in networks.values():
        states |= state_bytes(network.signature)
    needed = weight_bytes + sum(states.values())
    if free is None or needed <= free:
        return
    parts = f"weights {decimal(weight_bytes)}, states {decimal(sum(states.values()))}"
    own = [f"{name} {decimal(function_bytes(network))}" for name, network in networks.items() if name]
    if own:
        parts += f"; of these {', '.join(own)}"
    problem = f"needs {decimal(needed)} of memory ({parts}), and this process may use {decimal(free)} more"
    raise MachineError(where, problem, "raise the limit: ulimit -v")


def check_memory(signature: Signature, where: str, limit: int | None) -> None:
    """Refuse a network whose states exceed the memory of this process's control group.

    Args:
        limit: :func:`group_limit`.

    Raises:
        MachineError: they do not fit.
    """
    needed = sum(state_bytes(signature).values())
    if limit is not None and needed > limit:
        problem = f"its states need {decimal(needed)} of memory, and this process's control group has {decimal(limit)}"
        raise MachineError(
            where, problem, "raise the limit of the container or service, or compile it for smaller states"
        )


def function_bytes(network: Manifest) -> int:
    """The size of the weights and states that a network uses, without dynamic states."""
    weights = (math.prod(weight.shape) * numpy_dtype(weight.dtype).itemsize for weight in network.parameters)
    return sum(weights) + sum(state_bytes(network.signature).values())


def state_bytes(signature: Signature) -> dict[StateKey, int]:
    """The sizes of states in bytes; 0 for dynamic ones, whose sizes are known when they run."""
    return {
        state_key(state): math.prod(size if isinstance(size, int) else 0 for size in state.shape)
        * numpy_dtype(state.dtype).itemsize
        for state in signature.states
    }


def _free_address_space() -> int | None:
    """Bytes that this process may still map; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        used = 0
    return max(0, limit - used)


def group_limit(process: Path = GROUP, root: Path = GROUPS) -> int | None:
    """The smallest limit of this process's control groups, in bytes; None without any."""
    try:
        group = next(line[3:] for line in process.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    above = Path(group.strip("/"))
    limits: list[int] = []
    for directory in (root / above, *(root / parent for parent in above.parents)):
        try:
            text = (directory / "memory.max").read_text().strip()
        except OSError:
            continue
        limits += [int(text)] if text.isdigit() else []
    return min(limits, default=None)
