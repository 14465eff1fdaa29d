"""What the store keeps and gives back."""

import json
import subprocess
import sys

import pytest

from tests.records.examples import (
    CONTEXT,
    CONV,
    DAY,
    DENSE,
    OLD_CONTEXT,
    OTHER_CONTEXT,
    digests,
    files,
    record,
    verdict,
)
from tvmake.errors import InputError
from tvmake.records.record import Record
from tvmake.records.store import RecordStore, records_root


def journal(store: RecordStore):
    return store.journal(CONTEXT, CONV)


def test_records_come_back_unchanged_in_the_order_they_came(store):
    made = [record(3), record(1, ms=None), record(2, ms=0.5)]
    store.append(CONTEXT, CONV, made[:1])
    store.append(CONTEXT, CONV, made[1:])
    stored = store.load(CONTEXT, CONV)
    assert [one.record for one in stored] == made
    assert digests(stored) == digests(made)
    assert [one.verdict for one in stored] == [None] * 3
    assert [one.latency_ms for one in stored] == [pytest.approx(1.0), None, pytest.approx(0.5)]


def test_the_same_record_twice_counts_once_where_it_was_first(store):
    store.append(CONTEXT, CONV, [record(1), record(2), record(1)])
    store.append(CONTEXT, CONV, [record(3), record(2)])
    assert digests(store.load(CONTEXT, CONV)) == digests([record(1), record(2), record(3)])


def test_nothing_stored_is_an_empty_list(store):
    assert store.load(CONTEXT, CONV) == []
    assert store.contexts() == []
    assert store.workloads(CONTEXT) == []
    store.append(CONTEXT, CONV, [])
    assert not store.root.exists()


def test_contexts_and_workloads_are_kept_apart(store):
    store.append(CONTEXT, CONV, [record(1)])
    store.append(CONTEXT, DENSE, [record(2)])
    store.append(OTHER_CONTEXT, CONV, [record(3)])
    store.append(OLD_CONTEXT, CONV, [record(4)])
    assert digests(store.load(CONTEXT, CONV)) == digests([record(1)])
    assert digests(store.load(OTHER_CONTEXT, CONV)) == digests([record(3)])
    assert store.workloads(CONTEXT) == [CONV, DENSE]
    assert store.contexts() == [OLD_CONTEXT, CONTEXT, OTHER_CONTEXT]


def test_the_layout_is_generation_then_context_then_workload(store):
    store.append(CONTEXT, CONV, [record(1)])
    store.define(CONTEXT, CONV, {"name": "conv"})
    context = f"{CONTEXT.generation}/{CONTEXT.digest}"
    assert set(files(store.root)) == {
        f"{context}/place.json",
        *(f"{context}/{CONV}/{name}" for name in ("records.jsonl", "workload.json", "lock")),
    }


def test_a_verdict_stands_with_its_record_and_a_wrong_output_has_no_latency(store):
    good, bad, unchecked = record(1), record(2), record(3)
    store.append(CONTEXT, CONV, [good, bad, unchecked, verdict(good, True), verdict(bad, False)])
    stored = store.load(CONTEXT, CONV)
    assert [one.verdict and one.verdict.right for one in stored] == [True, False, None]
    assert [one.outcome for one in stored] == ["ok", "wrong_output", "ok"]
    assert stored[1].latency_ms is None


def test_of_several_verdicts_the_latest_counts_in_whatever_order_they_came(store, another_store):
    made = record(1)
    first, second = verdict(made, False, at="2026-01-01T00:00:00Z"), verdict(made, True, at="2026-01-01T01:30:00+01:00")
    store.append(CONTEXT, CONV, [made, first, second])
    another_store.append(CONTEXT, CONV, [second, first, made])
    for one in (store, another_store):
        assert one.load(CONTEXT, CONV)[0].verdict == second


def test_of_two_verdicts_of_the_same_moment_the_worse_counts(store):
    made = record(1)
    store.append(CONTEXT, CONV, [made, verdict(made, False, at=DAY), verdict(made, True, at=DAY)])
    assert not store.load(CONTEXT, CONV)[0].verdict.right


def test_a_record_that_cannot_be_true_is_refused_and_nothing_of_its_batch_is_written(store):
    store.append(CONTEXT, CONV, [record(1)])
    before = files(store.root)
    impossible = record(2).model_copy(update={"samples_s": (0.0,)})
    with pytest.raises(InputError, match="a sample of 0 s"):
        store.append(CONTEXT, CONV, [record(3), impossible])
    assert files(store.root) == before


def test_a_workload_that_is_not_a_digest_is_refused(store):
    for key in ("conv", "../" + CONV[3:], CONV.upper(), CONV + "0"):
        with pytest.raises(InputError, match="not a workload's key"):
            store.append(CONTEXT, key, [record(1)])
    assert not store.root.exists()


def test_a_directory_that_was_moved_to_another_contexts_name_is_refused(store):
    store.append(CONTEXT, CONV, [record(1)])
    store.directory(CONTEXT).rename(store.directory(OTHER_CONTEXT))
    with pytest.raises(InputError, match="another context"):
        store.append(OTHER_CONTEXT, CONV, [record(2)])
    assert store.load(OTHER_CONTEXT, CONV) == []
    assert store.contexts() == []


def test_lines_of_another_context_or_workload_are_set_aside_not_used(store):
    store.append(CONTEXT, CONV, [record(1)])
    store.append(OTHER_CONTEXT, CONV, [record(2)])
    store.append(CONTEXT, DENSE, [record(3)])
    with journal(store).path.open("ab") as file:
        file.write(store.journal(OTHER_CONTEXT, CONV).path.read_bytes())
        file.write(store.journal(CONTEXT, DENSE).path.read_bytes())
    assert digests(store.load(CONTEXT, CONV)) == digests([record(1)])
    assert journal(store).count_quarantined() == 2


def test_a_bad_line_is_set_aside_once_with_its_reason_and_all_its_bytes(store):
    store.append(CONTEXT, CONV, [record(1), record(2), record(3)])
    lines = journal(store).path.read_bytes().splitlines(keepends=True)
    damaged = lines[1].replace(b"evolutionary", b"evol\xff\x00ionary")
    journal(store).path.write_bytes(lines[0] + damaged + lines[2])
    for _ in range(2):
        assert digests(store.load(CONTEXT, CONV)) == digests([record(1), record(3)])
    (aside,) = [json.loads(line) for line in journal(store).quarantine.read_text().splitlines()]
    assert aside["reason"] == "differs from its sha256"
    assert aside["line"].encode(errors="surrogateescape") == damaged.removesuffix(b"\n")
    assert journal(store).path.read_bytes() == lines[0] + lines[2]


def test_a_description_is_kept_once_and_comes_back(store):
    first = {"name": "fused_conv2d", "module": {"nested": [1, 2.5, None, "ü"]}}
    store.define(CONTEXT, CONV, first)
    before = files(store.root)
    store.define(CONTEXT, CONV, {"name": "the same kernel in another model"})
    assert store.description(CONTEXT, CONV) == first
    assert files(store.root) == before
    assert store.workloads(CONTEXT) == [CONV]
    assert store.load(CONTEXT, CONV) == []


def test_a_damaged_description_counts_as_none_and_is_replaced(store):
    store.define(CONTEXT, CONV, {"name": "conv", "module": "x"})
    path = journal(store).directory / "workload.json"
    path.write_bytes(path.read_bytes().replace(b"conv", b"cnov"))
    assert store.description(CONTEXT, CONV) is None
    store.define(CONTEXT, CONV, {"name": "conv again"})
    assert store.description(CONTEXT, CONV) == {"name": "conv again"}


def test_another_workloads_description_is_not_taken(store):
    store.define(CONTEXT, DENSE, {"name": "dense"})
    store.append(CONTEXT, CONV, [record(1)])
    (store.journal(CONTEXT, DENSE).directory / "workload.json").rename(journal(store).directory / "workload.json")
    assert store.description(CONTEXT, CONV) is None


def test_records_are_in_tvmake_home_or_with_the_users_data_and_in_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))
    assert records_root() == tmp_path / "records"
    assert RecordStore().root == tmp_path / "records"
    monkeypatch.delenv("TVMAKE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert tmp_path / "data" in records_root().parents


@pytest.mark.parametrize(
    "module",
    [
        "tvmake.cli.records.app",
        "tvmake.records.store",
        "tvmake.records.sharing.shared",
        "tvmake.records.sharing.exchange",
    ],
)
def test_no_compiler_or_network_library_is_imported_with(module):
    heavy = "{'tvm', 'tvm_ffi', 'torch', 'onnx', 'fsspec', 's3fs', 'botocore'}"
    script = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_record_of_a_device_that_is_not_conditioned_is_what_it_was_before_there_were_conditions():
    plain = record(1)
    assert plain.digest == "23b2ad8ca694bfbc410c4ef6cd9444be863e5fa14e9f556fe5ec6ba39444a193"
    seen = plain.model_copy(update={"conditions": {"throttled": "no"}})
    assert seen.digest != plain.digest and Record.model_validate_json(seen.model_dump_json()) == seen
