"""Modules of tuning jobs and their build workers, preloaded in the server that they are forked from."""

from contextlib import suppress

import tvm

import tvmake.device.rpc.serving
import tvmake.tune.measure.connect
import tvmake.tune.measure.workers.build_worker
import tvmake.tune.measure.workers.forkserver
import tvmake.tune.search.search
import tvmake.tune.search.spaces
import tvmake.tune.search.transfer
import tvmake.tune.verify.check
import tvmake.tune.verify.kernel_runner  # noqa: F401
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics

light_intrinsics(tvm.target.Target("llvm"))

import tvm.s_tir.meta_schedule  # noqa: E402

with suppress(ImportError):  # one of the cost models needs it, and reports if it is missing
    import xgboost  # noqa: F401
