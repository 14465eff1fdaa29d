"""Sorting by counting, for OpenCL: the place of an element is the number of those that come before it.

TVM 0.27 sorts on the host for OpenCL, in memory that only the device can read. Counting takes the square of the extent, spread over
all threads: for the classes of a network and the boxes of a detector that is little. Larger axes stay as they are, and are
refused. Remove when tests/targets/opencl/test_sorts.py::test_tvm_still_sorts_on_the_host fails.
"""

from typing import Any

import tvm

from tvmake.targets.affected import is_affected

from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

RELEASES = "<0.28"

LONGEST = 16_384
"""The extent up to which counting is done."""

VALUES, PLACES, BOTH = "values", "indices", "both"


@tvm.transform.module_pass(opt_level=0)
class SortsByCounting:
    """Replace ``relax.sort``, ``relax.argsort`` and ``relax.topk``."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module without sorts of the host; as it is where TVM has kernels for them."""
        if not is_affected(RELEASES):
            return module
        rewriter = _Sorts(module)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
        made = rewriter.builder_.get()
        return tvm.IRModule(dict(made.functions_items()), attrs=module.attrs, global_infos=module.global_infos)


@mutator
class _Sorts(PyExprMutator):
    """Rewrites the calls."""

    def visit_call_(self, op: Any) -> Any:
        """A sort as calls of kernels; any other call as it is."""
        call = self.visit_expr_post_order(op)
        name = str(call.op.name) if isinstance(call.op, tvm.ir.Op) else ""
        attributes = call.attrs
        match name:
            case "relax.sort":
                return self._sorted(call, bool(attributes.descending), VALUES, "int32", None)
            case "relax.argsort":
                return self._sorted(call, bool(attributes.descending), PLACES, str(attributes.dtype), None)
            case "relax.topk":
                wanted = str(attributes.ret_type)
                return self._sorted(call, bool(attributes.largest), wanted, str(attributes.dtype), int(attributes.k))
        return call

    def _sorted(self, call: Any, is_descending: bool, wanted: str, dtype: str, count: int | None) -> Any:
        """The first ``count`` values or places in order, or both."""
        data = call.args[0]
        axis = int(call.attrs.axis) % len(data.ty.shape)
        extent = data.ty.shape[axis]
        if not isinstance(extent, tvm.tirx.IntImm) or int(extent) > LONGEST:
            return call
        count = int(extent) if count is None or count < 1 else count
        builder = self.builder_
        ranks = builder.emit_te(_ranks, data, axis, is_descending, primfunc_name_hint="ranks")
        places = builder.emit_te(_places, ranks, axis, count, dtype, primfunc_name_hint="places_by_rank")
        if wanted == PLACES:
            return places
        values = builder.emit_te(_taken, data, places, axis, primfunc_name_hint="values_by_place")
        return values if wanted == VALUES else relax.Tuple([values, places])


def _ranks(data: "te.Tensor", axis: int, is_descending: bool) -> "te.Tensor":
    """How many elements of the same row come before each; of equal ones, the earlier ones do."""
    other = te.reduce_axis((0, data.shape[axis]), name="other")

    def value(*place: Any) -> Any:
        mine, theirs = data[place], data[(*place[:axis], other, *place[axis + 1 :])]
        is_before = theirs > mine if is_descending else theirs < mine
        counts = tvm.tirx.any(is_before, tvm.tirx.all(theirs.equal(mine), other < place[axis]))
        one, zero = (tvm.tirx.const(number, "int32") for number in (1, 0))
        return te.sum(tvm.tirx.Select(counts, one, zero), axis=other)

    return te.compute(data.shape, value, name="ranks")


def _places(ranks: "te.Tensor", axis: int, count: int, dtype: str) -> "te.Tensor":
    """Where the element of each rank is."""
    candidate = te.reduce_axis((0, ranks.shape[axis]), name="candidate")
    shape = [*ranks.shape[:axis], tvm.tirx.const(count, "int64"), *ranks.shape[axis + 1 :]]

    def value(*place: Any) -> Any:
        rank = ranks[(*place[:axis], candidate, *place[axis + 1 :])]
        # The largest, so that it is a place of the row whatever the ranks are: NaN has none.
        is_there = rank.equal(place[axis].astype("int32"))
        return te.max(tvm.tirx.Select(is_there, candidate.astype(dtype), tvm.tirx.const(0, dtype)), axis=candidate)

    return te.compute(shape, value, name="places_by_rank")


def _taken(data: "te.Tensor", places: "te.Tensor", axis: int) -> "te.Tensor":
    return te.compute(
        places.shape, lambda *place: data[(*place[:axis], places[place], *place[axis + 1 :])], name="values_by_place"
    )
