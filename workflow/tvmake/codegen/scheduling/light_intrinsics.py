"""Import only the tensor intrinsics that a target can use.

An empty package replaces ``tvm.s_tir.tensor_intrin``, whose import takes 20 s and more; its submodules are TVM's own.
Repair: `intrinsics-of-every-architecture`.
"""

import importlib
import importlib.util
import sys
import types

import tvm

from tvmake.targets.affected import is_affected
from tvmake.targets.backends import backend_of

PACKAGE = "tvm.s_tir.tensor_intrin"


def light_intrinsics(target: "tvm.target.Target") -> None:
    """Register the intrinsics that ``target`` can use, and keep TVM from importing all others.

    Call it before the first ``TuneContext`` of a process, once for each target.
    """
    if is_affected() and PACKAGE not in sys.modules:
        _install_empty_package()
    backend = backend_of(target)
    if name := backend.intrinsics_module(target):
        importlib.import_module(f"{PACKAGE}.{name}")
    backend.register_intrinsics(target)


def _install_empty_package() -> None:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.submodule_search_locations is not None
    package = types.ModuleType(PACKAGE)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    package.__package__ = PACKAGE
    sys.modules[PACKAGE] = package
    tvm.s_tir.tensor_intrin = package
