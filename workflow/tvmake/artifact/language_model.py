"""Which input of a signature takes tokens, and which output has a value for each token."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmake.artifact.signature import Signature, TensorSpec, is_arithmetic
from tvmake.errors import InputError

POSITIONS = re.compile("position")
"""Inputs with the positions of tokens."""


@dataclass(frozen=True)
class LanguageModel:
    """The parts of a signature that take and return tokens."""

    tokens: TensorSpec
    """(batch, sequence) or (sequence)."""
    positions: tuple[TensorSpec, ...]
    """Inputs of the same shape with the positions of the tokens."""
    logits: TensorSpec
    """The last extent is the vocabulary; of several positions, the last counts."""
    context: int | None
    """The greatest number of tokens that states have room for; None without a bound."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return int(self.logits.shape[-1])

    def inputs(self, ids: Sequence[int], begin: int) -> dict[str, np.ndarray]:
        """The inputs of a run with these tokens, the first of which is at position ``begin``."""
        counts = np.arange(begin, begin + len(ids))

        def array(spec: TensorSpec, values: Sequence[int] | np.ndarray) -> np.ndarray:
            return np.asarray(values, spec.dtype).reshape((1,) * (len(spec.shape) - 1) + (-1,))

        return {self.tokens.name: array(self.tokens, ids)} | {spec.name: array(spec, counts) for spec in self.positions}


def language_model(signature: Signature, tokens: str | None = None, logits: str | None = None) -> LanguageModel:
    """The input that takes tokens and the output that has logits.

    Args:
        tokens: the input's name; by default the only one of integers with a dimension for a sequence.
        logits: the output's name; by default the only one whose last extent is fixed, or that with an entry for each token.

    Raises:
        InputError: there is no such input or output, several fit, the package keeps no states, or it needs other inputs.
    """
    if not signature.states:
        remedy = "a decoder is compiled with its cache as states: `state: {INPUT: OUTPUT}`"
        raise InputError("package", "keeps no states, and forgets every token after its run", remedy)
    positions = tuple(
        spec for spec in signature.inputs if _is_tokens(spec) and POSITIONS.search(spec.name) and spec.name != tokens
    )
    taken = [spec for spec in signature.inputs if _is_tokens(spec) and spec not in positions]
    given = _select("input", "--token-input", signature.inputs, taken, tokens)
    if others := [spec for spec in signature.inputs if spec != given and spec not in positions]:
        remedy = f"give it a value when the model is compiled: `inputs: {{{others[0].name}: {{value: 1}}}}`"
        raise InputError("package", f"takes another input for each token, {_describe(others[0])}", remedy)
    fit = [spec for spec in signature.outputs if _is_logits(spec)]
    if (rows := given.indices or given.range) is not None:
        fit = [spec for spec in fit if int(spec.shape[-1]) <= rows[1] + 1]  # else a chosen token might be none
        fit = [spec for spec in fit if spec.shape[-1] == rows[1] + 1] or fit
    return LanguageModel(
        given, positions, _select("output", "--logits-output", signature.outputs, fit, logits), _context(signature)
    )


def _is_tokens(spec: TensorSpec) -> bool:
    is_row = len(spec.shape) == 1 or (len(spec.shape) == 2 and (spec.shape[0] == 1 or isinstance(spec.shape[0], str)))
    return spec.dtype in ("int32", "int64") and is_row


def _is_logits(spec: TensorSpec) -> bool:
    return "float" in spec.dtype and len(spec.shape) >= 2 and isinstance(spec.shape[-1], int) and spec.shape[-1] > 1


def _select(
    what: str, option: str, specs: Sequence[TensorSpec], fit: Sequence[TensorSpec], name: str | None
) -> TensorSpec:
    listing = "; ".join(map(_describe, specs))
    if name is not None:
        if (chosen := next((spec for spec in specs if spec.name == name), None)) is None:
            raise InputError("package", f"has no {what} '{name}'", f"its {what}s are {listing}")
        return chosen
    if len(fit) == 1:
        return fit[0]
    purpose = "takes tokens" if what == "input" else "has logits"
    problem = f"no {what} {purpose}" if not fit else f"several {what}s may be the one that {purpose}"
    raise InputError(
        "package", f"{problem}: {listing}", f"name it: {option} NAME" if fit else "give a language model's package"
    )


def _context(signature: Signature) -> int | None:
    """The greatest number of tokens: one more than a growing state keeps."""
    growing = {
        extent
        for state in signature.states
        for extent, following in zip(state.shape, state.next.shape, strict=True)
        if isinstance(extent, str) and extent != following and not is_arithmetic(extent)
    }
    bounds = [signature.bounds[name][1] for name in growing if name in signature.bounds]
    return min((most + 1 for most in bounds if most is not None), default=None)


def _describe(spec: TensorSpec) -> str:
    return f"'{spec.name}' {spec.dtype} [{', '.join(map(str, spec.shape))}]"
