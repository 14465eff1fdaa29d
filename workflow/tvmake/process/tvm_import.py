"""Import TVM without paying for torch.

TVM and tvm_ffi import torch whenever it can be found, to register its dtypes; that doubles the import (1.2 s to 2.9 s of
processor) and adds 200 MB. A process that needs TVM and not torch calls :func:`hide_torch_from_tvm` where it begins; modules write
plain ``import tvm``. Torch can still be imported afterwards. A process that needs both imports torch first.

``python -m tvmake.process.tvm_import MODULE …`` runs a module so, for those that import TVM at their top.
"""

import importlib.abc
import runpy
import signal
import sys
import threading
from contextlib import ExitStack

from tvmake.process.stopping import handled


class _TorchHidden(importlib.abc.MetaPathFinder):
    """Makes ``import torch`` fail while TVM is being imported."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] == "torch" and any(map(_is_being_imported, ("tvm_ffi", "tvm"))):
            raise ModuleNotFoundError("hidden from TVM", name=fullname)


def _is_being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def hide_torch_from_tvm() -> None:
    """Let ``import tvm`` leave torch alone, in this process and its forks, unless torch is imported already."""
    if not any(isinstance(finder, _TorchHidden) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchHidden())


def import_tvm() -> None:
    """Import TVM whole: a Ctrl-C meanwhile counts when it is there. Python cannot import again what it left half-way, and a notebook
    goes on after Ctrl-C."""
    if "tvm" in sys.modules:
        return
    came: list[int] = []
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            stack.enter_context(
                handled(lambda before: (lambda number, _: came.append(number)) if callable(before) else None)
            )
        import tvm  # noqa: F401
    for number in came[:1]:
        signal.raise_signal(number)


if __name__ == "__main__":
    hide_torch_from_tvm()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
