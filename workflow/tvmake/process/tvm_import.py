"""Import TVM without importing torch.

TVM and tvm_ffi import torch if it is installed, to register its dtypes; that doubles the import (1.2 s to 2.9 s of processor
time) and adds 200 MB. A process that needs TVM but not torch calls :func:`hide_torch_from_tvm` first; modules write plain
``import tvm``. Torch can still be imported afterwards. A process that needs both imports torch first.

``python -m tvmake.process.tvm_import MODULE …`` runs a module this way, for modules that import TVM at the top.
"""

import importlib.abc
import runpy
import sys


class _TorchHidden(importlib.abc.MetaPathFinder):
    """Makes ``import torch`` fail during the import of TVM."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] == "torch" and any(map(_is_being_imported, ("tvm_ffi", "tvm"))):
            raise ModuleNotFoundError("hidden from TVM", name=fullname)


def _is_being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def hide_torch_from_tvm() -> None:
    """Make ``import tvm`` skip torch, in this process and its forks, unless torch is imported already."""
    if not any(isinstance(finder, _TorchHidden) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchHidden())


if __name__ == "__main__":
    hide_torch_from_tvm()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
