"""Kernels with correct and with faulty behaviour."""

from collections.abc import Sequence

import tvm

from tvmake.artifact.size_points import SizePoint
from tvmake.tune.measure.interface import Candidate

from tvm import te, tirx  # isort: skip

TARGET = {"kind": "llvm", "num-cores": 1}


def target() -> "tvm.target.Target":
    return tvm.target.Target(TARGET)


def candidate(number: int, module: "tvm.IRModule") -> Candidate:
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    return Candidate(number, module, list(ArgInfo.from_prim_func(module["main"])))


def add(number: int, dtype: str = "float32", size: int = 64) -> Candidate:
    x = te.placeholder((size,), dtype, name="x")
    y = te.compute((size,), lambda i: x[i] + x[i] if dtype != "bool" else x[i], name="y")
    return _of(number, te.create_prim_func([x, y]))


def rows(number: int, sizes: Sequence[int], weights: Sequence[float]) -> Candidate:
    """Adds each of ``n`` rows to itself, at several sizes."""
    n = te.var("n", "int64")
    x = te.placeholder((n, 256), "float32", name="x")
    y = te.compute((n, 256), lambda i, j: x[i, j] + x[i, j], name="y")
    module = tvm.IRModule({"main": te.create_prim_func([x, y]).with_attr("global_symbol", "main")})
    points = [SizePoint(sizes={"n": size}, weight=weight) for size, weight in zip(sizes, weights, strict=True)]
    return Candidate(number, module, points=points)


def gather(number: int, dtype: str) -> Candidate:
    """Crashes or reads at random unless its indices are 0 or 1."""
    table = te.placeholder((2, 4096), "float32", name="table")
    index = te.placeholder((512,), dtype, name="index")
    y = te.compute((512, 4096), lambda i, j: table[index[i], j], name="y")
    return _of(number, te.create_prim_func([table, index, y]))


def slow_to_build(number: int, statements: int = 4000) -> Candidate:
    """Keeps the compiler busy for a minute or so: an exponential in each statement, which LLVM has in one block."""
    a = tirx.decl_buffer((64,), "float32", name="A")
    stores = [
        tirx.BufferStore(a, tirx.exp(a[k * 7919 % 64] * a[k * 104729 % 61]), [k * 31 % 64]) for k in range(statements)
    ]
    return _of(number, tirx.PrimFunc([a], tirx.SeqStmt(stores)))


def calling(number: int, *calls: tuple) -> Candidate:
    """Calls C functions in order; a function's first argument may be text."""
    return _of(
        number, _function(tirx.SeqStmt([_call(*call) for call in calls]) if len(calls) > 1 else _call(*calls[0]))
    )


def unless_zero(number: int, check: tuple, *then: tuple) -> Candidate:
    """Aborts unless a C function gives 0, then calls others."""
    guard = tirx.IfThenElse(_value(*check) != 0, _call("abort"), None)
    return _of(
        number, _function(tirx.SeqStmt([guard, *(_call(*call) for call in then)] if then else [guard, _call("getpid")]))
    )


def crashing(number: int) -> Candidate:
    return calling(number, ("abort",))


def hanging(number: int) -> Candidate:
    return calling(number, ("pause",))


def unknown_symbol(number: int) -> Candidate:
    return calling(number, ("no_such_function",))


def unbuildable(number: int) -> Candidate:
    return _of(number, _function(tirx.Evaluate(tirx.call_intrin("int32", "tirx.ptx.tcgen05_fence"))))


def lasting(number: int, milliseconds: int) -> Candidate:
    return calling(number, ("usleep", milliseconds * 1000))


def numbers(measured: Sequence) -> list[int]:
    return sorted(result.number for result in measured)


def _of(number: int, function: "tvm.tirx.PrimFunc") -> Candidate:
    function = function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return candidate(number, tvm.IRModule({"main": function}))


def _function(body) -> "tvm.tirx.PrimFunc":
    return tirx.PrimFunc([tirx.decl_buffer((16,), "float32", name="A")], body)


def _call(name: str, *arguments) -> "tvm.tirx.Stmt":
    return tirx.Evaluate(_value(name, *arguments))


def _value(name: str, *arguments) -> "tvm.tirx.PrimExpr":
    return tirx.call_extern("int32", name, *(_argument(argument) for argument in arguments))


def _argument(argument):
    if isinstance(argument, tuple):  # a call that gives a pointer
        return tirx.call_extern("handle", argument[0], *(_argument(inner) for inner in argument[1:]))
    return tvm.ir.StringImm(argument) if isinstance(argument, str) else tirx.const(argument, "int32")
