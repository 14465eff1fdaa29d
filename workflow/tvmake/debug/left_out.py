"""What else a config could say: a user's passes left out, to find the one that is wrong, and weights in more bits."""

from collections.abc import Iterator, Sequence

from tvmake.quantize.precision import WEIGHTS_ONLY, PrecisionConfig
from tvmake.transform.options import UserPass

GROUPS = (128, 64, 32)
"""Weights that may share a scale."""


def without_passes(passes: Sequence[UserPass]) -> Iterator[tuple[str, list[UserPass]]]:
    """The passes without each of them, and without all, with a name for what is left out."""
    for one in passes:
        yield f"the pass {one.use}", [other for other in passes if other is not one]
    if len(passes) > 1:
        yield f"the passes {', '.join(one.use for one in passes)}", []


def leave_out(name: str) -> str:
    """What to do about a setting that is wrong, or about passes that are only together."""
    return f"leave {name} out, or mend {'them' if name.startswith('the passes') else 'it'}"


def finer_weights(precision: PrecisionConfig) -> Iterator[tuple[str, PrecisionConfig]]:
    """Precisions that hold weights in more bits or with more scales, the smallest first, as a config has them; none where all is rounded."""
    if precision.base not in WEIGHTS_ONLY:
        return
    bases = ("int4_weights", "int8_weights") if precision.base == "int4_weights" else ("int8_weights",)
    for base in bases:
        coarsest = precision.weight_group if base == precision.base else None
        groups = [group for group in GROUPS if coarsest is None or group < coarsest]
        for group in [None, *groups] if base != precision.base else groups:
            others = f", group: {group}" if group else ""
            yield f"{{base: {base}{others}}}", precision.model_copy(update={"base": base, "group": group})
