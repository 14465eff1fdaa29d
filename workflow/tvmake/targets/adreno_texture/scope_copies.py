"""Copy between buffers and textures with kernels.

If one consumer wants a tensor in a texture and another in a buffer, TVM's runtime copies it into memory that it
allocates at run time. A kernel copies into planned memory instead and needs no runtime support.
Repair: `adreno-copies-as-reshapes`.
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


def lower_scope_copies(module: "tvm.IRModule") -> "tvm.IRModule":
    """Replace each copy with a call of a kernel."""
    return rewritten(module, _ScopeCopyInserter(module))


@tvm.transform.module_pass(opt_level=0, name="ArgumentsInBuffers")
def take_arguments_in_buffers(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Take a network's arguments in buffers, as callers pass them, and copy those that consumers want in textures.

    Repair: `adreno-inputs-in-textures`.
    """
    main = module["main"]
    textures = [parameter for parameter in main.params if TEXTURE in scope_of(parameter.ty)]
    if not textures:
        return module
    buffers = {parameter: _in_buffer(parameter) for parameter in textures}
    copies = [
        relax.VarBinding(parameter, relax.op.to_vdevice(buffers[parameter], parameter.ty.vdevice))
        for parameter in textures
    ]
    first, *blocks = main.body.blocks
    body = relax.SeqExpr([type(first)([*copies, *first.bindings]), *blocks], main.body.body)
    parameters = [buffers.get(parameter, parameter) for parameter in main.params]
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = relax.Function(parameters, body, main.ret_ty, main.is_pure, main.attrs, main.span)
    return changed


def _in_buffer(parameter: Any) -> Any:
    ty, device = parameter.ty, parameter.ty.vdevice
    buffer_device = relax.VDevice(device.target, device.vdevice_id, GLOBAL)
    return relax.Var(str(parameter.name), relax.TensorType(ty.shape, dtype_name(ty), buffer_device))


def reshapes_textures(module: "tvm.IRModule") -> bool:
    """Whether a kernel only reshapes or copies, from a texture or into one."""
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
        """A call of a copying kernel; any other call unchanged."""
        call = self.visit_expr_post_order(op)
        if not is_call(call, COPY):
            return call
        source, result = call.args[0].ty, op.ty
        if scope_of(source) == scope_of(result):
            # A constant's copy; it has no device yet. TVM would mistake the kernel for a reshape, and drop it.
            return call.args[0]
        # int64 extents, as in Relax, so that kernels can be specialised to their calls.
        shape = [tvm.tirx.const(int(extent), "int64") for extent in source.shape]
        dtype = dtype_name(source)
        source_tensor = te.placeholder(shape, dtype, name="source")
        copy = te.compute(shape, lambda *place: source_tensor[place], name="copied")
        kernel = self.builder_.add_func(
            te.create_prim_func([source_tensor, copy]).without_attr("global_symbol"), "copy"
        )
        return relax.call_tir(kernel, [call.args[0]], relax.TensorType(shape, dtype, result.vdevice))
