"""Load modules once for all processes that are forked afterwards."""

import gc
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvmake.process.tvm_import import hide_torch_from_tvm


@dataclass(frozen=True)
class Preload:
    """The modules of a kind of server."""

    modules: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that affect how the modules load."""


def load(modules: Sequence[str]) -> None:
    """Import modules; torch first if it is among them, because TVM registers torch's dtypes if torch is loaded.

    The garbage collector is off meanwhile: nearly all new objects stay, and scanning them repeatedly takes a sixth of the
    time.
    """
    if "torch" not in modules:
        hide_torch_from_tvm()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        if was_enabled:
            gc.enable()


def freeze_memory() -> None:
    """Move all objects out of the garbage collector's reach, so that forks keep sharing their memory pages."""
    gc.collect()
    gc.freeze()


def check_single_thread() -> None:
    """Check that this process can be forked safely.

    Raises:
        RuntimeError: the process has several threads.
    """
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) != 1:
        raise RuntimeError("a library started a thread; workers forked from here could hang")
