"""One line: nothing of it can change unseen, and nothing implausible is read."""

import json
import math
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.examples import CONTEXT, CONV, DEVICE, record, verdict
from tvmake.records.line import BadLine, Description, decode, encode
from tvmake.records.plausible import TRACE_BYTES
from tvmake.records.record import TuningContext, Verdict

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def line_of(value, context=CONTEXT.digest, workload=CONV) -> bytes:
    return encode(context, workload, value).removesuffix(b"\n")


def forged(payload: str, kind="record") -> bytes:
    """A line with the right sha256 over anything."""
    rest = f'"place":"{CONTEXT.digest}","workload":"{CONV}","{kind}":{payload}}}'.encode()
    return b'{"sha256":"' + sha256(rest).hexdigest().encode() + b'",' + rest


def changed(**changes) -> str:
    return json.dumps({**record(1).model_dump(mode="json"), **changes}, sort_keys=True, separators=(",", ":"))


def test_a_line_is_a_json_object_that_names_its_context_workload_and_record():
    line = json.loads(line_of(record(1)))
    assert list(line) == ["sha256", "place", "workload", "record"]
    assert (line["place"], line["workload"]) == (CONTEXT.digest, CONV)
    assert line["record"]["samples_s"] == list(record(1).samples_s)


@given(JSON)
def test_any_json_trace_comes_back_and_its_digest_is_the_records_name(trace):
    made = record(1, trace=trace)
    assert decode(line_of(made)).digest == made.digest
    assert decode(line_of(made), thoroughly=True).value == made


def test_a_member_of_the_device_that_looks_like_the_trace_confuses_nothing():
    details = {"strategy": "x", "trace": "y"}
    made = record(1).model_copy(update={"device": DEVICE.model_copy(update={"details": details})})
    assert decode(line_of(made)).value.device.details == details
    assert decode(line_of(made)).value.strategy == "evolutionary"


@given(st.data())
def test_a_line_with_any_changed_byte_is_refused(data):
    line = bytearray(line_of(data.draw(st.sampled_from([record(1), record(2, ms=None), verdict(record(1), True)]))))
    position = data.draw(st.integers(0, len(line) - 1))
    line[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadLine):
        decode(bytes(line))


@given(st.data())
def test_a_line_cut_anywhere_is_refused(data):
    line = line_of(record(1))
    with pytest.raises(BadLine):
        decode(line[: data.draw(st.integers(0, len(line) - 1))])


@pytest.mark.parametrize("sample", [-1e-3, 0.0, 1e-10, 1e10, 86_400.0, math.inf, -math.inf, math.nan])
def test_a_sample_that_cannot_be_is_refused(sample):
    # NaN and infinity are spelled as Python's json spells them.
    for thoroughly in (False, True):
        with pytest.raises(BadLine, match="a sample of"):
            decode(forged(changed(samples_s=[1e-3, sample])), thoroughly=thoroughly)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "fine"}, "status"),
        ({"status": "run_error"}, "has samples although its status is run_error"),
        ({"samples_s": []}, "has no samples although its status is ok"),
        ({"samples_s": ["0.001x"]}, "samples_s"),
        ({"measured_at": "yesterday"}, "not a date"),
        ({"batch": -1}, "batch"),
        ({"surprise": 1}, "surprise"),
        ({"trace": "x" * TRACE_BYTES}, "more than 1 MiB"),
    ],
)
def test_a_record_of_an_unknown_structure_is_refused_with_the_reason(change, reason):
    for thoroughly in (False, True):
        with pytest.raises(BadLine, match=reason):
            decode(forged(changed(**change)), thoroughly=thoroughly)


@pytest.mark.parametrize(
    "payload",
    [
        changed() + " ",
        changed(seed="1"),
        changed().replace('"seed":1', '"seed":1,"seed":1'),
        changed().replace('"batch":0', '"batch":0.0'),
        changed(trace=math.nan),
        changed(trace="t").replace('"t"', '"\\u0074"'),
        changed(trace="t").replace('"t"', '"\\ud800"'),
        changed(trace="t").replace('"t"', "[" * 900 + "]" * 900),
        changed(trace="t").replace('"t"', "[" * 100_000 + "]" * 100_000),
        changed(trace="t").replace('"t"', "1" * 5000),
    ],
)
def test_from_outside_only_one_spelling_is_taken(payload):
    with pytest.raises(BadLine):
        decode(forged(payload), thoroughly=True)


@pytest.mark.parametrize("trace", [object(), "\ud800", {1: object()}])
def test_what_is_not_json_is_refused_before_it_is_written(trace):
    with pytest.raises(BadLine):
        encode(CONTEXT.digest, CONV, record(1, trace=trace))


@pytest.mark.parametrize("right", [True, False])
def test_a_verdict_without_a_finite_error_says_none(right):
    made = Verdict(
        record=CONV, right=right, worst_error=math.nan, reason="output is not finite", checked_at="2026-01-01"
    )
    assert decode(line_of(made)).value.worst_error is None


def test_descriptions_and_contexts_are_lines_too():
    described = decode(line_of(Description({"name": "conv", "module": ["x", 1]})), thoroughly=True)
    assert described.value.root == {"name": "conv", "module": ["x", 1]}
    defined = decode(line_of(CONTEXT, workload=None), thoroughly=True)
    assert defined.value == CONTEXT


def test_a_context_under_another_contexts_digest_is_refused():
    with pytest.raises(BadLine, match="the digest of another"):
        line_of(CONTEXT, context="0" * 64, workload=None)


@pytest.mark.parametrize("generation", ["../../etc", "", ".", "..", "_quarantine", ".hidden", "a/b", "a\n", "x" * 81])
def test_a_generation_that_is_not_a_plain_directory_name_is_refused(generation):
    with pytest.raises(ValueError, match="generation"):
        TuningContext(generation=generation, target="{}", device_class="x")
