"""States that names suggest, as exporters write them."""

import pytest

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.frontend.suggested_states import suggest_states


def signature(inputs: str, outputs: str) -> Signature:
    """Names with a rank and a type: ``x:2 n:0:int64``."""

    def specs(text: str) -> tuple[TensorSpec, ...]:
        parts = [[*word.split(":"), "float32"][:3] for word in text.split()]
        return tuple(
            TensorSpec(name=name, relax_name=name, shape=(1,) * int(rank), dtype=dtype) for name, rank, dtype in parts
        )

    return Signature(inputs=specs(inputs), outputs=specs(outputs))


@pytest.mark.parametrize(
    ("inputs", "outputs", "state"),
    [
        ("input:2 state:3 sr:0:int64", "output:2 stateN:3", {"state": "stateN"}),  # Silero
        ("x:2 h:3 c:3", "y:2 hn:3 cn:3", {"h": "hn", "c": "cn"}),
        ("x:2 h0:3 c0:3", "y:2 hn:3 cn:3", {"h0": "hn", "c0": "cn"}),
        (
            "ids:2:int64 past_key_values.0.key:4 past_key_values.0.value:4 past_key_values.1.key:4 past_key_values.1.value:4",
            "logits:3 present.0.key:4 present.0.value:4 present.1.key:4 present.1.value:4",
            {"past_key_values.%d.key": "present.%d.key", "past_key_values.%d.value": "present.%d.value"},
        ),
        ("x:3 cache_in:4", "y:3 cache_out:4", {"cache_in": "cache_out"}),
        ("x:3 prev_state:2", "y:3 next_state:2", {"prev_state": "next_state"}),
        ("x:2 h:3", "y:2 hn:2", {}),  # another number of axes
        ("x:2 n:1:int64", "y:2 n_next:1", {}),  # another type
        ("h:2", "h_next:2", {}),  # nothing would be returned
        ("image:4", "scores:2", {}),
    ],
)
def test_names_of_exporters_are_known(inputs: str, outputs: str, state: dict[str, str]):
    assert suggest_states(signature(inputs, outputs)) == state
