"""Expressions of functions that choose other functions by sizes."""

from typing import Any

from tvm import relax  # isort: skip


def choose(fits: Any, then: Any, otherwise: Any, returned: Any) -> Any:
    """One of two expressions.

    Args:
        fits: a condition on sizes.
        returned: a type of both.
    """
    condition, result = relax.Var("has_sizes", fits.ty), relax.Var("result", returned)
    choice = relax.If(condition, then, otherwise)
    return sequence([relax.VarBinding(condition, fits), relax.VarBinding(result, choice)], result)


def sequence(bindings: list[Any], result: Any) -> Any:
    """A variable after bindings."""
    return relax.SeqExpr([relax.BindingBlock(bindings)], result)


def any_shape(kind: Any) -> Any:
    """A type without sizes: those of the functions differ."""
    if isinstance(kind, relax.TupleType):
        return relax.TupleType([any_shape(part) for part in kind.fields])
    return relax.TensorType(dtype=kind.dtype.dtype, ndim=kind.ndim) if isinstance(kind, relax.TensorType) else kind
