"""Links between functions that the names of inputs and outputs suggest."""

from tests.artifact.test_links import tensor
from tvmake.artifact.signature import Signature
from tvmake.frontend.suggested_links import suggest_links, suggest_separate_states
from tvmake.frontend.suggested_states import suggest_states


def cache(name: str, kind: str) -> list[object]:
    return [tensor(f"{name}.{layer}.{kind}.key", 1, f"{kind}_length", 2) for layer in range(2)]


IDS = tensor("input_ids", 1, "t", dtype="int64")
DECODE = Signature(
    inputs=(IDS, *cache("past_key_values", "decoder"), *cache("past_key_values", "encoder")),
    outputs=(tensor("logits", 1, 8), *cache("present", "decoder")),
)
PREFILL = Signature(
    inputs=(IDS, tensor("encoder_hidden_states", 1, "s", 4)),
    outputs=(tensor("logits", 1, 8), *cache("present", "decoder"), *cache("present", "encoder")),
)
ENCODE = Signature(inputs=(tensor("x", 1, "s", 3),), outputs=(tensor("last_hidden_state", 1, "s", 4),))
PARTS = {"decode": DECODE, "prefill": PREFILL, "encode": ENCODE}


def test_the_parts_of_an_export_are_linked_by_their_names():
    states = {name: suggest_states(signature) for name, signature in PARTS.items()}
    assert suggest_links(PARTS, states) == {
        "prefill": {
            "present.%d.decoder.key": "past_key_values.%d.decoder.key",
            "present.%d.encoder.key": "past_key_values.%d.encoder.key",
        },
        "encode": {"last_hidden_state": "encoder_hidden_states"},
    }


def recurrent(name: str, *shape: int) -> Signature:
    kept = tensor("h", *shape)
    return Signature(inputs=(tensor(name, 1, 4), kept), outputs=(tensor(f"{name}_out", 1, 4), tensor("h_next", *shape)))


def test_states_of_networks_with_other_inputs_are_separate():
    states = {"first": {"h": "h_next"}, "second": {"h": "h_next"}}
    assert suggest_separate_states({"first": recurrent("x", 1, 8), "second": recurrent("y", 1, 8)}, states) == ["h"]
    assert suggest_separate_states({"first": recurrent("x", 1, 8), "second": recurrent("x", 1, 8)}, states) == []
    assert suggest_separate_states({"first": recurrent("x", 1, 8), "second": recurrent("y", 2, 8)}, states) == []
