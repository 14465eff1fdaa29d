"""Sequences that a language model writes itself: how far a package writes the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from tvmake.artifact.language_model import LanguageModel, language_model
from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.storage.documents import FailsFast

Tensors = Mapping[str, np.ndarray]


class ContinuationFigures(FailsFast, BaseModel):
    """Tokens that package and reference choose after the same prompt, each the one with the greatest logit.

    ``equal`` of ``tokens`` are the same before the first that differs. The package is given the reference's tokens: until
    then, they are its own.
    """

    model_config = ConfigDict(extra="forbid")

    tokens: int
    equal: int


class Continuation:
    """The samples of the first sequence, which continues with the reference's own tokens.

    Args:
        model: how the network takes and returns tokens.
        steps: the number of samples.
    """

    def __init__(self, model: LanguageModel, steps: int):
        self.model = model
        self.steps = steps
        self._token = 0
        self._position = 0

    def samples(self, drawn: Iterable[Tensors]) -> Iterator[dict[str, np.ndarray]]:
        """The drawn samples; from the second to the last of the sequence, the token of the step before.

        The outputs of a sample must be passed to :meth:`note` before the next is taken.
        """
        for number, sample in enumerate(drawn):
            if number >= self.steps:
                yield dict(sample)
                continue
            prompt = sample[self.model.tokens.name].ravel().tolist()
            tokens = [self._token] if number else prompt
            yield {**sample, **self.model.inputs(tokens, self._position)}
            self._position += len(tokens)

    def note(self, outputs: Tensors) -> None:
        """Choose the next token by the outputs of the last sample."""
        self._token = chosen_token(self.model, outputs)


class ContinuedTokens:
    """Compares the chosen tokens of the first samples."""

    def __init__(self, model: LanguageModel, steps: int):
        self._model = model
        self._steps = steps
        self._seen = 0
        self._equal = 0

    def add(self, reference: Tensors, got: Tensors) -> None:
        """Compare the next sample's."""
        name = self._model.logits.name
        if self._seen < self._steps and name in got:
            is_equal = chosen_token(self._model, reference) == chosen_token(self._model, got)
            self._equal += is_equal and self._equal == self._seen
            self._seen += 1

    @property
    def figures(self) -> ContinuationFigures:
        """The figures so far."""
        return ContinuationFigures(tokens=self._seen, equal=self._equal)


def continuation(
    signature: Signature, samples: int, steps: int, sizes: Mapping[str, int], shapes: Sequence[Mapping[str, int]]
) -> Continuation | None:
    """The sequence that the reference continues; None if the network is not a language model, or takes no single token.

    Args:
        samples: the number of samples.
        steps: samples in a sequence; 0: all are one.
        sizes: of dynamic dimensions in the samples.
        shapes: the only sizes that packages may have code for.
    """
    try:
        model = language_model(signature)
    except InputError:
        return None
    if model.tokens.indices is None and model.tokens.range is None:  # a chosen token might be none
        return None
    extent = model.tokens.shape[-1]
    least, _ = signature.bounds.get(str(extent), (0, None))
    is_single = extent == 1 or (isinstance(extent, str) and least <= 1 and sizes.get(extent, 1) == 1)
    if isinstance(extent, str) and shapes:
        is_single = any(shape.get(extent) == 1 for shape in shapes)
    has_batch = any(isinstance(size, str) and sizes.get(size, 1) > 1 for size in model.tokens.shape[:-1])
    count = min(steps or samples, samples)
    return Continuation(model, count) if is_single and not has_batch and count > 1 else None


def chosen_token(model: LanguageModel, outputs: Tensors) -> int:
    """The token with the greatest logit after the last position."""
    return int(np.asarray(outputs[model.logits.name]).reshape(-1, model.vocabulary)[-1].argmax())
