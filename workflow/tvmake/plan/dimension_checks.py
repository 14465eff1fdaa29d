"""Check the sizes and bounds that a config gives to models' dynamic dimensions."""

from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial

from tvmake.artifact.dims import fixed_sizes, spell_shape
from tvmake.artifact.extents import describe_bounds, has_size, narrow_bounds, unknown_dimension
from tvmake.artifact.signature import Bounds, Signature, is_arithmetic
from tvmake.config.reading.load import one_or_many
from tvmake.errors import InputError, TvmakeError
from tvmake.plan.plan import Plan


def check_dims(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse sizes and bounds for dynamic dimensions that a model does not have, or that contradict it.

    Args:
        declared: signatures by model, if known without running it.

    Raises:
        InputError, ErrorList: a model has no such dimension, its file contradicts, or samples would have other sizes.
    """
    errors: list[TvmakeError] = []
    for name, signature in declared.items():
        extents = {dim for spec in signature.arguments for dim in spec.shape if isinstance(dim, str)}
        dynamic = {dim for dim in extents | set(signature.bounds) if not is_arithmetic(dim)}
        dims, bounds = plan.config.networks[name].dims, dict(signature.bounds)
        for dimension, size in dims.items():
            if dimension not in dynamic:
                errors.append(unknown_dimension(f"{plan.config.key_of(name)}.dims.{dimension}", dimension, dynamic))
                continue
            try:
                where = f"{plan.config.key_of(name)}.dims.{dimension}"
                bounds[dimension] = narrow_bounds(where, size, signature.bounds.get(dimension))
            except InputError as error:
                errors.append(error)
        errors += _wrong_shapes(plan, name, dynamic, bounds)
        errors += _wrong_sample_sizes(plan, name, {dim: bounds[dim] for dim in bounds if dim not in fixed_sizes(dims)})
    if errors:
        raise one_or_many(errors)


def check_fixed_sizes(plan: Plan, declared: Mapping[str, Signature]) -> None:
    """Refuse networks with dynamic dimensions on targets that need fixed sizes.

    Args:
        declared: signatures by model, if known without running it.

    Raises:
        InputError, ErrorList: naming the dimensions and the target.
    """
    errors = []
    needs_fixed_sizes = cache(partial(_needs_fixed_sizes, plan))
    for name, signature in declared.items():
        model = plan.config.networks[name]
        free = [
            dimension
            for dimension in signature.dynamic_dimensions
            if dimension not in fixed_sizes(model.dims)
            and (not model.shapes or any(dimension not in shape for shape in model.shapes))
        ]
        targets = {variant.target for variant in plan.variants if variant.model == name} if free else set()
        for target in sorted(filter(needs_fixed_sizes, targets)):
            problem = f"target '{target}' needs fixed sizes, and the model has the dynamic dimensions {', '.join(free)}"
            sizes = ", ".join(f"{dimension}: SIZE" for dimension in free)
            remedy = f"fix them, `dims: {{{sizes}}}`, or list the sizes to take, `shapes: [{{{sizes}}}]`"
            errors.append(InputError(plan.config.key_of(name), problem, remedy))
    if errors:
        raise one_or_many(errors)


def _needs_fixed_sizes(plan: Plan, target: str) -> bool:
    from tvmake.targets.backends import backend_of
    from tvmake.targets.resolve import tvm_target

    return backend_of(tvm_target(plan.config.targets[target].options(), f"targets.{target}")).needs_fixed_sizes


def _wrong_shapes(
    plan: Plan, model: str, dynamic: Collection[str], bounds: Mapping[str, Bounds]
) -> Iterator[InputError]:
    where = f"{plan.config.key_of(model)}.shapes"
    for shape in plan.config.networks[model].shapes:
        for dimension, size in shape.items():
            if dimension not in dynamic:
                yield unknown_dimension(where, dimension, dynamic, f"{spell_shape(shape)}: ")
            elif dimension in bounds and not has_size(bounds[dimension], size):
                takes = describe_bounds(bounds[dimension])
                yield InputError(where, f"{spell_shape(shape)}: {dimension} takes {takes}", "choose such a size")


def _wrong_sample_sizes(plan: Plan, model: str, bounds: Mapping[str, Bounds]) -> Iterator[InputError]:
    own = plan.config.networks[model].validation
    for dimension, size in plan.context({"model": model}).validation.dims.items():
        if dimension in bounds and not has_size(bounds[dimension], size):
            where = (
                f"{plan.config.key_of(model)}.validation" if own is not None and dimension in own.dims else "validation"
            )
            takes = describe_bounds(bounds[dimension])
            problem = f"is {size}, but model '{model}' takes {takes}"
            yield InputError(f"{where}.dims.{dimension}", problem, "choose such a size")
