"""Exported files: every valid record arrives, no invalid one does."""

import gzip
import json
import math
from hashlib import sha256

import pytest

from tests.records.examples import CONTEXT, CONV, DENSE, OLD_CONTEXT, OTHER_CONTEXT, digests, files, record, verdict
from tvmake.errors import InputError
from tvmake.records.line import LINE_BYTES, encode
from tvmake.records.sharing.exchange import all_workloads, export_records, import_records, merge


@pytest.fixture
def filled(store):
    store.append(CONTEXT, CONV, [record(1), record(2, ms=None), verdict(record(1), True)])
    store.define(CONTEXT, CONV, {"name": "conv", "module": "text of the kernel"})
    store.append(OTHER_CONTEXT, DENSE, [record(3)])
    store.append(OLD_CONTEXT, CONV, [record(4)])
    return store


@pytest.fixture
def exported(filled, tmp_path):
    file = tmp_path / "records.jsonl.gz"
    export_records(filled, all_workloads(filled), file)
    return file


def everything_in(store) -> dict:
    return {
        workload: ([(stored.record, stored.verdict) for stored in store.load(*workload)], store.description(*workload))
        for workload in all_workloads(store)
    }


def forged(payload: str) -> bytes:
    rest = f'"place":"{CONTEXT.digest}","workload":"{CONV}","record":{payload}}}'.encode()
    return b'{"sha256":"' + sha256(rest).hexdigest().encode() + b'",' + rest + b"\n"


def poisoned(number: int, **changes) -> bytes:
    """A record of a hostile or broken writer, with the right sha256."""
    changed = {**record(number).model_dump(mode="json"), **changes}
    return forged(json.dumps(changed, sort_keys=True, separators=(",", ":")))


def file_of(tmp_path, *lines: bytes, header=b'{"format": "tvmake-records", "version": 1}\n'):
    file = tmp_path / "given.jsonl.gz"
    file.write_bytes(gzip.compress(header + b"".join(lines)))
    return file


def context_line(context=CONTEXT) -> bytes:
    return encode(context.digest, None, context)


def test_an_exported_file_brings_everything_to_another_store(filled, another_store, exported):
    ingested = import_records(another_store, exported)
    assert everything_in(another_store) == everything_in(filled)
    assert (sum(ingested.fresh.values()), ingested.known, dict(ingested.refused)) == (5, 0, {})


def test_importing_again_changes_nothing(another_store, exported):
    import_records(another_store, exported)
    before = files(another_store.root)
    ingested = import_records(another_store, exported)
    assert files(another_store.root) == before
    assert (sum(ingested.fresh.values()), ingested.known) == (0, 5)


def test_the_same_records_make_the_same_file(filled, exported, another_store, tmp_path):
    import_records(another_store, exported)
    again = tmp_path / "again.jsonl.gz"
    export_records(another_store, all_workloads(another_store), again)
    assert again.read_bytes() == exported.read_bytes()


def test_only_what_was_chosen_is_exported_and_bad_lines_are_not(filled, another_store, tmp_path):
    with filled.journal(CONTEXT, CONV).path.open("ab") as file:
        file.write(b"noise\n")
    assert export_records(filled, [(CONTEXT, CONV)], tmp_path / "one.jsonl.gz") == 3
    assert not import_records(another_store, tmp_path / "one.jsonl.gz").refused
    assert all_workloads(another_store) == [(CONTEXT, CONV)]


def test_records_of_another_generation_go_to_a_context_of_their_own(another_store, exported):
    assert OLD_CONTEXT in import_records(another_store, exported).contexts
    assert digests(another_store.load(OLD_CONTEXT, CONV)) == digests([record(4)])
    assert digests(another_store.load(CONTEXT, CONV)) == digests([record(1), record(2, ms=None)])


POISON = {
    "a negative sample": poisoned(10, samples_s=[-1e-3]),
    "MetaSchedule's mark of a failure": poisoned(11, samples_s=[1e10]),
    "less than a nanosecond": poisoned(12, samples_s=[1e-10]),
    "NaN": poisoned(13, samples_s=[math.nan]),
    "infinity": poisoned(14, samples_s=[math.inf]),
    "an unknown status": poisoned(15, status="great"),
    "too large a trace": poisoned(16, trace="x" * (2 << 20)),
    "too long a line": b'{"sha256":"' + b"x" * (LINE_BYTES + 5) + b"\n",
    "not a date": poisoned(17, measured_at="\x1b[31mred"),
    "a changed figure": encode(CONTEXT.digest, CONV, record(18)).replace(b"0.001", b"0.0001"),
    "nested too deeply": forged('{"trace":' + "[" * 50_000 + "]" * 50_000 + "}"),
    "of an undefined context": encode(OTHER_CONTEXT.digest, CONV, record(19)),
    "no json": b"\x00\xff\n",
    "an empty line": b"\n",
}


@pytest.mark.parametrize("poison", POISON)
def test_a_poisoned_line_is_set_aside_with_its_reason_and_the_others_arrive(poison, store, tmp_path):
    good = [encode(CONTEXT.digest, CONV, record(number)) for number in (1, 2)]
    file = file_of(tmp_path, context_line(), good[0], POISON[poison], good[1])
    ingested = import_records(store, file)
    assert digests(store.load(CONTEXT, CONV)) == digests([record(1), record(2)])
    assert sum(ingested.refused.values()) == 1
    (aside,) = [json.loads(line) for line in ingested.quarantine.read_text().splitlines()]
    assert (aside["source"], aside["number"]) == (file.name, 4)
    assert aside["reason"]
    before = files(store.root)
    import_records(store, file)
    assert files(store.root) == before


def test_reasons_are_counted_together(store, tmp_path):
    bad = [poisoned(number, samples_s=[-float(number)]) for number in range(1, 6)]
    ingested = import_records(store, file_of(tmp_path, context_line(), encode(CONTEXT.digest, CONV, record(1)), *bad))
    assert dict(ingested.refused) == {"a sample out of bounds": 5}


def test_a_file_of_poison_only_is_refused_and_leaves_no_records(store, tmp_path):
    with pytest.raises(InputError, match="it has no usable record"):
        import_records(store, file_of(tmp_path, context_line(), *POISON.values()))
    assert store.contexts() == []


def test_a_context_with_a_path_for_a_generation_makes_no_directory(store, tmp_path):
    payload = b'{"device_class":"x","generation":"../../evil","target":"{}"}'
    rest = b'"place":"' + sha256(payload).hexdigest().encode() + b'","definition":' + payload + b"}"
    line = b'{"sha256":"' + sha256(rest).hexdigest().encode() + b'",' + rest + b"\n"
    with pytest.raises(InputError, match="it has no usable record"):
        import_records(store, file_of(tmp_path, line))
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"not gzip", "not a file of records"),
        (b"", "not a file of records"),
        (gzip.compress(b"", mtime=0), "not a file of records"),
        (gzip.compress(b"[1]\n", mtime=0), "not a file of records"),
        (gzip.compress(b"\xff" * 5000, mtime=0), "not a file of records"),
        (gzip.compress(b"[" * 900 + b"\n", mtime=0), "not a file of records"),
        (gzip.compress(b'{"format": "tvmake-records", "version": 2}\n', mtime=0), "version 2, expected 1"),
    ],
)
def test_another_file_is_refused_in_one_line(content, problem, store, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        import_records(store, file)


def test_a_missing_file_is_refused(store, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        import_records(store, tmp_path / "missing")


def test_of_a_file_that_was_cut_everything_before_the_cut_arrives(store, tmp_path):
    lines = [encode(CONTEXT.digest, CONV, record(number)) for number in range(2000)]
    file = file_of(tmp_path, context_line(), *lines)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    ingested = import_records(store, file)
    arrived = digests(store.load(CONTEXT, CONV))
    assert arrived == digests([record(number) for number in range(len(arrived))])
    assert len(arrived) > 500
    assert dict(ingested.refused) == {"the file is damaged or truncated from here on": 1}


def test_another_store_is_merged_and_only_read(filled, another_store):
    another_store.append(CONTEXT, CONV, [record(2, ms=None), record(9)])
    before = files(filled.root)
    ingested = merge(another_store, filled)
    assert files(filled.root) == before
    assert digests(another_store.load(CONTEXT, CONV)) == digests([record(2, ms=None), record(9), record(1)])
    assert another_store.description(CONTEXT, CONV) == filled.description(CONTEXT, CONV)
    assert ingested.known == 1
    after = files(another_store.root)
    merge(another_store, filled)
    assert files(another_store.root) == after


def test_a_merge_counts_what_is_damaged_in_the_other_store(filled, another_store):
    path = filled.journal(CONTEXT, CONV).path
    path.write_bytes(path.read_bytes().replace(b"evolutionary", b"revolution!!", 1))
    assert dict(merge(another_store, filled).refused) == {"differs from its sha256": 1}


def test_a_store_is_not_merged_with_itself_or_with_nothing(filled, another_store):
    with pytest.raises(InputError, match="this store itself"):
        merge(filled, filled)
    with pytest.raises(InputError, match="has no records"):
        merge(filled, another_store)
