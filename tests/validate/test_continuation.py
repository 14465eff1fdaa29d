"""How far a package continues a prompt as the original does."""

import numpy as np
import pytest

from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.config.validation import Goals
from tvmake.validate.continuation import ContinuedTokens, continuation
from tvmake.validate.numerics import Comparison


def spec(name: str, *shape: int | str, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=dtype)


def signature(length: int | str = "n", *, has_state: bool = True) -> Signature:
    tokens = spec("ids", 1, length, dtype="int64").model_copy(update={"range": (0, 4)})
    state = StateSpec(**spec("past", 1, "past").model_dump(), next=spec("now", 1, "past + n"))
    return Signature(inputs=(tokens,), outputs=(spec("logits", 1, 5),), states=(state,) if has_state else ())


def logits(token: int) -> dict[str, np.ndarray]:
    return {"logits": np.eye(5, dtype="float32")[[token]]}


def test_the_first_sequence_continues_with_the_tokens_of_the_reference():
    own = continuation(signature(), 6, 3, {}, ())
    assert own is not None and own.steps == 3
    drawn = ({"ids": np.array([[number % 5]])} for number in range(6))
    given = []
    for sample in own.samples(drawn):
        given.append(int(sample["ids"][0, 0]))
        own.note(logits((given[-1] + 2) % 5))
    assert given == [0, 2, 4, 3, 4, 0]  # the second sequence is as drawn


def test_tokens_count_until_the_first_other_one():
    own = continuation(signature(), 8, 4, {}, ())
    assert own is not None
    comparison = Comparison(Goals(), 4, ContinuedTokens(own.model, own.steps))
    for reference, got in ((1, 1), (2, 2), (3, 0), (4, 4), (0, 1), (0, 0)):
        comparison.add(logits(reference), logits(got))
    figures = comparison.report().continuation
    assert figures is not None and (figures.equal, figures.tokens) == (2, 4)
    assert Comparison(Goals()).report().continuation is None


@pytest.mark.parametrize(
    ("given", "sizes", "shapes", "continues"),
    [
        (signature(), {}, (), True),
        (signature(1), {}, (), True),
        (signature(), {"n": 1}, (), True),
        (signature(), {}, ({"n": 8}, {"n": 1}), True),
        (signature(), {}, ({"n": 8},), False),  # a package may have no code for one token
        (signature(), {"n": 8}, (), False),
        (signature(8), {}, (), False),
        (signature(has_state=False), {}, (), False),
    ],
)
def test_networks_that_take_single_tokens_continue(given: Signature, sizes: dict, shapes: tuple, continues: bool):
    assert (continuation(given, 8, 4, sizes, shapes) is not None) == continues
