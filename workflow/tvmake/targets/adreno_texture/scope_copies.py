"""Copy between buffers and textures with kernels.

Where one consumer wants a tensor in a texture and another in a buffer, TVM has the runtime copy it, into memory that it
allocates on the way. As a kernel, the copy takes planned memory, and needs nothing of the runtime. Repair: `adreno-copies-as-reshapes`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.rewriting import rewritten
from tvmake.targets.adreno_texture.kernel_scopes import GLOBAL, scope_of

from tvm import relax, te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

COPY = "to_vdevice"

TEXTURE = "texture"


def copies_as_kernels(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with a kernel for each copy."""
    return rewritten(module, _ScopeCopyInserter(module))


@tvm.transform.module_pass(opt_level=0, name="ArgumentsInBuffers")
class ArgumentsInBuffers:
    """Take a network's arguments in buffers, as callers have them, and copy those into textures that are wanted there.

    Repair: `adreno-inputs-in-textures`.
    """

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with such arguments; as it is where there are none to copy."""
        main = module["main"]
        wanted = [parameter for parameter in main.params if TEXTURE in scope_of(parameter.ty)]
        if not wanted:
            return module
        taken = {parameter: _in_a_buffer(parameter) for parameter in wanted}
        copies = [relax.VarBinding(one, relax.op.to_vdevice(taken[one], one.ty.vdevice)) for one in wanted]
        first, *blocks = main.body.blocks
        body = relax.SeqExpr([type(first)([*copies, *first.bindings]), *blocks], main.body.body)
        parameters = [taken.get(parameter, parameter) for parameter in main.params]
        changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
        changed["main"] = relax.Function(parameters, body, main.ret_ty, main.is_pure, main.attrs, main.span)
        return changed


def _in_a_buffer(parameter: Any) -> Any:
    ty, device = parameter.ty, parameter.ty.vdevice
    elsewhere = relax.VDevice(device.target, device.vdevice_id, GLOBAL)
    return relax.Var(str(parameter.name), relax.TensorType(ty.shape, dtype_name(ty), elsewhere))


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
class _ScopeCopyInserter(PyExprMutator):
    """Rewrites the copies."""

    def visit_call_(self, op: Any) -> Any:
        """A call of a copying kernel; any other call as it is."""
        call = self.visit_expr_post_order(op)
        if not is_call(call, COPY):
            return call
        source, result = call.args[0].ty, op.ty
        if scope_of(source) == scope_of(result):
            # Of a constant, which has no device yet. TVM would take the kernel for a reshape, and lose it.
            return call.args[0]
        # As Relax counts, so that kernels can be specialised to their calls.
        shape = [tvm.tirx.const(int(extent), "int64") for extent in source.shape]
        dtype = dtype_name(source)
        given = te.placeholder(shape, dtype, name="source")
        copy = te.compute(shape, lambda *place: given[place], name="copied")
        kernel = self.builder_.add_func(te.create_prim_func([given, copy]).without_attr("global_symbol"), "copy")
        return relax.call_tir(kernel, [call.args[0]], relax.TensorType(shape, dtype, result.vdevice))
