"""Variations of a config: without a user's passes, to find the wrong one, and with weights in more bits."""

from collections.abc import Iterator, Sequence

from tvmake.quantize.precision import WEIGHTS_ONLY, PrecisionConfig
from tvmake.transform.options import UserPass

GROUPS = (128, 64, 32)
"""Numbers of weights that may share a scale."""


def without_passes(passes: Sequence[UserPass]) -> Iterator[tuple[str, list[UserPass]]]:
    """The passes without each of them, and without all, with a name for the omitted ones."""
    for pass_ in passes:
        yield f"the pass {pass_.use}", [other for other in passes if other is not pass_]
    if len(passes) > 1:
        yield f"the passes {', '.join(pass_.use for pass_ in passes)}", []


def leave_out(name: str) -> str:
    """The remedy for a wrong setting, or for passes that are wrong only in combination."""
    return f"leave {name} out, or correct {'them' if name.startswith('the passes') else 'it'}"


def finer_weights(precision: PrecisionConfig) -> Iterator[tuple[str, PrecisionConfig]]:
    """Precisions with more bits or scales for weights, the smallest first, as in a config; empty if activations are rounded too."""
    if precision.base not in WEIGHTS_ONLY:
        return
    bases = ("int4_weights", "int8_weights") if precision.base == "int4_weights" else ("int8_weights",)
    for base in bases:
        coarsest = precision.weight_group if base == precision.base else None
        groups = [group for group in GROUPS if coarsest is None or group < coarsest]
        for group in [None, *groups] if base != precision.base else groups:
            others = f", group: {group}" if group else ""
            yield f"{{base: {base}{others}}}", precision.model_copy(update={"base": base, "group": group})
