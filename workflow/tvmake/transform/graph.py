"""The target-independent rewrites in order."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvmake.artifact.calibration import Calibration
from tvmake.artifact.dims import DimBounds, fixed_sizes
from tvmake.artifact.extents import narrow_bounds, unknown_dimension
from tvmake.artifact.signature import Dim, Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.ir.bounds import bounds_of, with_bounds
from tvmake.ir.size_checks import failed_size_check, stated_types
from tvmake.ir.size_expressions import size_text
from tvmake.quantize.calibrated.insertion import insert
from tvmake.quantize.calibrated.sites import find_sites
from tvmake.quantize.integers.conversion import has_quantized, to_integers, turn_weights
from tvmake.quantize.integers.coverage import COVERAGE
from tvmake.quantize.precision import LayerPrecision
from tvmake.quantize.source.weights import source_weights
from tvmake.quantize.weights.added import hold_added
from tvmake.quantize.weights.holding import hold_weights
from tvmake.transform.assigned import assign
from tvmake.transform.axes import count_axes_from_front
from tvmake.transform.batch_norms import fold_batch_norms
from tvmake.transform.broadcasts import drop_equal_broadcasts, multiply_once, repeat_without_products
from tvmake.transform.convolutions.conv1d_to_conv2d import conv1d_to_conv2d
from tvmake.transform.convolutions.paddings import fold_paddings
from tvmake.transform.convolutions.transposed import as_convolutions
from tvmake.transform.fixed_kernels import fix_kernel_sizes
from tvmake.transform.fold_constants import evaluate_constants
from tvmake.transform.layouts.activations import spell_out_activations
from tvmake.transform.layouts.choices import CHOSEN_LAYOUT, FAILURES, LAYOUTS, has_convolutions
from tvmake.transform.layouts.clips import split_clips
from tvmake.transform.layouts.norms import flatten_norms
from tvmake.transform.masked_rows import drop_masked_rows
from tvmake.transform.numbers.special_values import ask_for_numbers, divide_by_no_zero, keep_infinities
from tvmake.transform.numbers.wide_norms import spell_out_wide_norms
from tvmake.transform.options import TransformRequest
from tvmake.transform.precision import to_precision
from tvmake.transform.samples import reflect_two_rows, sample_in_float32
from tvmake.transform.simplify_shapes import read_sizes_directly
from tvmake.transform.uniform_values import fill_single_values, spread_single_values
from tvmake.transform.user_passes import apply_user_passes


def transform(
    module: "tvm.IRModule",
    params: Mapping[str, Any],
    request: TransformRequest,
    calibration: Calibration | None = None,
    assignment: Sequence[LayerPrecision] = (),
) -> tuple["tvm.IRModule", dict[str, Any]]:
    """Bind parameters and dimensions, fold, change layout and precision, run user passes, and detach parameters.

    Args:
        calibration: activation ranges for ``int8``.
        assignment: the precision of each layer, for ``auto``.

    Returns:
        The module, with parameters as trailing arguments of ``main``, and the parameters in argument order. Unchanged ones keep their
        names.

    Raises:
        InputError: an unknown dimension, operator, layout or pass.
    """
    options = request.transform
    passes = tvm.relax.transform
    module = _bind(module, params, request)
    bounds = bounds_of(module)
    known = source_weights(_quantized_convolutions(module, request) if has_quantized(module) else module)
    module = _fold(module, request)
    if request.precision.is_calibrated and COVERAGE in (module.attrs or {}):
        module = module.without_attr(COVERAGE)  # calibration reports the operators that the source left in float
    if request.precision.base == "int8":
        if calibration is None:
            raise InputError(
                "int8", "needs the ranges of activations", "give --calibration; `tvmake step calibrate` writes it"
            )
        sites = find_sites(module, request.precision.never)
        module = evaluate_constants(to_integers(insert(module, sites, calibration.ranges, calibration.shifts)))
    if request.precision.is_chosen:
        module = assign(module, assignment, calibration, request.precision.never)
    if (layouts := LAYOUTS.get(options.layout)) is not None:
        try:
            module = passes.ConvertLayout(layouts)(spell_out_activations(flatten_norms(split_clips(module))))
        except FAILURES as error:
            problem = f"TVM cannot convert this network to {options.layout}: {str(error).strip().splitlines()[0][:200]}"
            remedy = "keep the model's layout: `transform.layout: keep`"
            raise InputError("transform.layout", problem, remedy) from error
        module = evaluate_constants(module)
    module = sample_in_float32(to_precision(module, request.precision))
    module, held = hold_weights(module, request.precision, known)
    module = hold_added(fill_single_values(module), request.precision)
    lines = [str((module.attrs or {}).get(COVERAGE, "")), held.coverage()]
    if any(lines):
        module = module.with_attr(COVERAGE, "; ".join(filter(None, lines)))
    module = apply_user_passes(module, options.passes, "after_precision")
    if options.layout != "keep" and has_convolutions(module):
        module = module.with_attr(CHOSEN_LAYOUT, options.layout)
    return lift_constants(with_bounds(module, bounds), known=params)


def float_network(module: "tvm.IRModule", params: Mapping[str, Any], request: TransformRequest) -> "tvm.IRModule":
    """Return the folded network, with its parameters as constants, before its precision and layout are changed.

    Raises:
        InputError: an unknown dimension, or a failing user pass.
    """
    return _fold(_bind(module, params, request), request)


def _bind(module: "tvm.IRModule", params: Mapping[str, Any], request: TransformRequest) -> "tvm.IRModule":
    """Bind parameters and dimensions, without folding."""
    options = request.transform
    passes = tvm.relax.transform
    module = count_axes_from_front(passes.BindParams("main", dict(params))(module))
    module = bind_dims(module, request.dims)
    if report := failed_size_check(module["main"]):
        raise InputError("dims", report, "give dimensions other sizes, or leave them dynamic")
    module = apply_user_passes(module, options.passes, "start")
    return multiply_once(drop_equal_broadcasts(repeat_without_products(module)))


def _fold(module: "tvm.IRModule", request: TransformRequest) -> "tvm.IRModule":
    options = request.transform
    passes = tvm.relax.transform
    if has_quantized(module):  # before folding, which would turn quantised weights into floats
        module = to_integers(_quantized_convolutions(module, request), is_source=True)
    if options.fold_batch_norm:
        module = fold_batch_norms(module)
    module = passes.DecomposeOpsForInference()(read_sizes_directly(module))
    module = reflect_two_rows(ask_for_numbers(divide_by_no_zero(spell_out_wide_norms(module))))
    module = keep_infinities(evaluate_constants(spread_single_values(module)))
    module = drop_masked_rows(module)
    module = apply_user_passes(module, options.passes, "before_precision")
    kept = request.precision.never
    return conv1d_to_conv2d(as_convolutions(fold_paddings(module), kept), kept)


def _quantized_convolutions(module: "tvm.IRModule", request: TransformRequest) -> "tvm.IRModule":
    """Replace transposed convolutions and keep quantised weights quantised."""
    return as_convolutions(turn_weights(module), request.precision.never)


def bind_dims(module: "tvm.IRModule", dims: Mapping[str, int | DimBounds], where: str = "dims") -> "tvm.IRModule":
    """Make dynamic dimensions static, and set the bounds of others (``tvmake.ir.bounds``).

    Args:
        where: the beginning of errors.

    Raises:
        InputError: ``main`` has no dimension of that name, or does not allow the size.
    """
    if not dims:
        return module
    symbolic = sorted({str(var.name) for var in tvm.relax.analysis.defined_symbolic_vars(module["main"])})
    for name in dims:
        if name not in symbolic:
            raise unknown_dimension(f"{where}.{name}", name, symbolic)
    declared = bounds_of(module)
    bounds = declared | {
        name: narrow_bounds(f"{where}.{name}", size, declared.get(name)) for name, size in dims.items()
    }
    fixed = fixed_sizes(dims)
    module = fix_kernel_sizes(tvm.relax.transform.BindSymbolicVars(fixed, "main")(module)) if fixed else module
    return with_bounds(module, {name: ends for name, ends in bounds.items() if name not in fixed})


def bound_signature(signature: Signature, module: "tvm.IRModule") -> Signature:
    """Update a signature with ``main``'s shapes and bounds after binding; names, order and dtypes stay."""
    function = module["main"]
    taken = [
        _with_shape(spec, parameter.ty) for spec, parameter in zip(signature.arguments, function.params, strict=False)
    ]
    returned = [
        # TVM's type of such a result has its largest size.
        spec if spec.is_sized_by_data else _with_shape(spec, ty)
        for spec, ty in zip(signature.results, stated_types(function), strict=True)
    ]
    inputs, outputs = len(signature.inputs), len(signature.outputs)
    return Signature(
        inputs=tuple(taken[:inputs]),
        outputs=tuple(returned[:outputs]),
        states=tuple(
            state.model_copy(update={"shape": value.shape, "next": following})
            for state, value, following in zip(signature.states, taken[inputs:], returned[outputs:], strict=True)
        ),
        bounds=bounds_of(module),
    )


def _with_shape(spec: TensorSpec, ty: Any) -> TensorSpec:
    if ty.shape is None:
        return spec
    return spec.model_copy(update={"shape": tuple(_dim(dim) for dim in ty.shape)})


def _dim(dim: Any) -> Dim:
    return int(dim) if isinstance(dim, tvm.tirx.IntImm) else size_text(dim)
