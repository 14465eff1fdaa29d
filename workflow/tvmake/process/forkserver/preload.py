"""Load modules once, for all processes that are forked afterwards."""

import gc
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvmake.process.tvm_import import hide_torch_from_tvm


@dataclass(frozen=True)
class Preload:
    """What a kind of server loads."""

    modules: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that decide how the modules load."""


def load(modules: Sequence[str]) -> None:
    """Import modules; where torch is one of them it comes first, because TVM registers torch's dtypes if it finds it.

    The garbage collector rests meanwhile: nearly all that is made here stays, and looking through it again and again
    takes a sixth of the time.
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
    """Keep the garbage collector of forks from copying shared pages by touching every object's header."""
    gc.collect()
    gc.freeze()


def check_single_thread() -> None:
    """Check that a fork of this process would be whole.

    Raises:
        RuntimeError: there are several threads.
    """
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) != 1:
        raise RuntimeError("a library started a thread; workers forked from here could hang")
