"""Copy between buffers and textures with kernels of our own.

Where one consumer wants a tensor in a texture and another in a buffer, TVM has the runtime copy it, into memory that it
allocates on the way. As a kernel, the copy takes planned memory, and needs nothing of the runtime.
"""

from typing import Any

from tvmake.quick_tvm import tvm

# After quick_tvm, which decides how TVM is loaded.
from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

COPY = "relax.to_vdevice"

TEXTURE = "texture"


def copies_as_kernels(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with a kernel for each copy."""
    rewriter = _Copies(module)
    for variable, function in module.functions_items():
        if isinstance(function, relax.Function):
            rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
    made = rewriter.builder_.get()
    return tvm.IRModule(dict(made.functions_items()), attrs=module.attrs, global_infos=module.global_infos)


def reshapes_textures(module: "tvm.IRModule") -> bool:
    """Whether a kernel does nothing but reshape or copy, from a texture or into one."""
    return any(
        any(TEXTURE in str(parameter.ty.storage_scope) for parameter in function.params if is_buffer(parameter))
        and relax.analysis.has_reshape_pattern(function)
        for _, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    )


def is_buffer(parameter: Any) -> bool:
    """Whether a kernel's parameter is a tensor."""
    return hasattr(parameter.ty, "storage_scope")


@mutator
class _Copies(PyExprMutator):
    """Rewrites the copies."""

    def visit_call_(self, op: Any) -> Any:
        """A call of a copying kernel; any other call as it is."""
        call = self.visit_expr_post_order(op)
        if not isinstance(call.op, tvm.ir.Op) or str(call.op.name) != COPY:
            return call
        source, result = call.args[0].ty, op.ty
        # As Relax counts, so that kernels can be specialised to their calls.
        shape = [tvm.tirx.const(int(extent), "int64") for extent in source.shape]
        dtype = str(getattr(source.dtype, "dtype", source.dtype))
        given = te.placeholder(shape, dtype, name="source")
        copy = te.compute(shape, lambda *place: given[place], name="copied")
        kernel = self.builder_.add_func(te.create_prim_func([given, copy]).without_attr("global_symbol"), "copy")
        return relax.call_tir(kernel, [call.args[0]], relax.TensorType(shape, dtype, result.vdevice))
