"""What tuning jobs import by and by, and their build workers, for the server they are forked from."""

from contextlib import suppress

import tvmake.stages.tune
import tvmake.tune.measuring.build_worker
import tvmake.tune.measuring.template  # noqa: F401
from tvmake.quick_tvm import tvm
from tvmake.tune.light_intrinsics import light_intrinsics

light_intrinsics(tvm.target.Target("llvm"))

import tvm.s_tir.meta_schedule  # noqa: E402

with suppress(ImportError):  # it is needed by one of the cost models, which says so itself
    import xgboost  # noqa: F401
