"""Whatever happens to the file: every intact record is loaded, and nothing else."""

import json
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.examples import CONTEXT, CONV, digests, record, verdict
from tvmake.errors import InputError
from tvmake.records.sharing.exchange import all_workloads, export_records, import_records, merge
from tvmake.records.store import RecordStore

EXAMPLES = 40
"""Of each property; each example writes files."""

NUMBERS = st.integers(0, 12)
RECORDS = {number: record(number, ms=None if number % 3 == 0 else 1 + number) for number in range(13)}
BY_DIGEST = {known.digest: known for known in RECORDS.values()}

batches = st.lists(st.lists(NUMBERS, max_size=4), max_size=6)


def fresh_store(temporary: str, name: str = "store") -> RecordStore:
    return RecordStore(Path(temporary) / name)


def in_order(numbers) -> list[str]:
    return [RECORDS[number].digest for number in dict.fromkeys(numbers)]


@settings(max_examples=EXAMPLES)
@given(batches)
def test_any_appends_come_back_each_record_once_in_order_of_first_appearance(appends):
    with tempfile.TemporaryDirectory() as temporary:
        store = fresh_store(temporary)
        for numbers in appends:
            store.append(CONTEXT, CONV, [RECORDS[number] for number in numbers])
        assert digests(store.load(CONTEXT, CONV)) == in_order(number for numbers in appends for number in numbers)


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_a_file_cut_anywhere_and_any_number_of_times_keeps_every_record_before_the_cut(data):
    with tempfile.TemporaryDirectory() as temporary:
        store = fresh_store(temporary)
        path = store.journal(CONTEXT, CONV).path
        expected: list[str] = []
        for numbers in data.draw(st.lists(st.lists(NUMBERS, min_size=1, max_size=3), min_size=1, max_size=4)):
            store.append(CONTEXT, CONV, [RECORDS[number] for number in numbers])
            content = path.read_bytes()
            cut = data.draw(st.integers(0, len(content)))
            path.write_bytes(content[:cut])
            expected = intact(content[:cut])
            if data.draw(st.booleans()):
                assert digests(store.load(CONTEXT, CONV)) == expected
        # The rest of a cut line hides nothing that is written after it.
        store.append(CONTEXT, CONV, [RECORDS[0]])
        assert digests(store.load(CONTEXT, CONV)) == list(dict.fromkeys([*expected, RECORDS[0].digest]))


def intact(content: bytes) -> list[str]:
    """Records whose lines are whole, by comparing with what was written, not by the store's own reading."""
    records = []
    for line in content.split(b"\n"):
        try:
            digest = record_in(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
        records.append(digest)
    return list(dict.fromkeys(records))


def record_in(line: dict) -> str:
    (digest,) = [digest for digest, known in BY_DIGEST.items() if known.model_dump(mode="json") == line["record"]]
    return digest


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_of_a_corrupted_file_every_untouched_line_is_loaded_nothing_else_and_no_byte_is_lost(data):
    with tempfile.TemporaryDirectory() as temporary:
        store = fresh_store(temporary)
        numbers = data.draw(st.lists(NUMBERS, min_size=1, max_size=6, unique=True))
        store.append(CONTEXT, CONV, [RECORDS[number] for number in numbers])
        journal = store.journal(CONTEXT, CONV)
        lines = journal.path.read_bytes().splitlines(keepends=True)
        damaged = set()
        for index in data.draw(st.sets(st.integers(0, len(lines) - 1))):
            line = bytearray(lines[index])
            # Not the line break: that one belongs to two lines, and has a test of its own.
            position = data.draw(st.integers(0, len(line) - 2))
            match data.draw(st.sampled_from(["flip", "insert", "delete", "zero"])):
                case "flip":
                    line[position] ^= 1 << data.draw(st.integers(0, 7))
                case "insert":
                    line[position:position] = data.draw(st.binary(min_size=1, max_size=5))
                case "delete":
                    del line[position : position + data.draw(st.integers(1, 50))]
                    line = line if line.endswith(b"\n") else line + b"\n"
                case "zero":
                    line[position : position + 20] = bytes(len(line[position : position + 20]))
                    line = line if line.endswith(b"\n") else line + b"\n"
            if bytes(line) != lines[index]:
                damaged.add(index)
                lines[index] = bytes(line)
        journal.path.write_bytes(b"".join(lines))
        for _ in range(2):
            loaded = store.load(CONTEXT, CONV)
            # An insertion before or after a whole line leaves it whole.
            whole = {RECORDS[number].digest for index, number in enumerate(numbers) if index not in damaged}
            assert whole <= set(digests(loaded)) <= {RECORDS[number].digest for number in numbers}
            assert all(stored.record == BY_DIGEST[stored.digest] for stored in loaded)
        aside = [json.loads(entry)["line"] for entry in quarantine(store)]
        missing = {number for number in numbers if RECORDS[number].digest not in digests(loaded)}
        assert bool(aside) >= bool(missing)


def quarantine(store: RecordStore) -> list[bytes]:
    path = store.journal(CONTEXT, CONV).quarantine
    return path.read_bytes().splitlines() if path.exists() else []


@settings(max_examples=EXAMPLES)
@given(batches, batches)
def test_merging_is_the_union_and_merging_again_changes_nothing(ours, theirs):
    with tempfile.TemporaryDirectory() as temporary:
        first, second = fresh_store(temporary, "first"), fresh_store(temporary, "second")
        for store, appends in ((first, ours), (second, theirs)):
            store.define_context(CONTEXT)
            for numbers in appends:
                records = [RECORDS[number] for number in numbers]
                store.append(CONTEXT, CONV, [*records, *(verdict(checked, True) for checked in records[:1])])
        union = in_order(number for appends in (ours, theirs) for numbers in appends for number in numbers)
        for _ in range(2):
            merge(first, second)
            assert digests(first.load(CONTEXT, CONV)) == union
        merge(second, first)
        assert sorted(digests(second.load(CONTEXT, CONV))) == sorted(union)
        assert by_digest(first) == by_digest(second)


def by_digest(store: RecordStore) -> dict:
    return {stored.digest: (stored.record, stored.verdict) for stored in store.load(CONTEXT, CONV)}


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_of_a_damaged_export_only_what_was_exported_is_imported(data):
    with tempfile.TemporaryDirectory() as temporary:
        store, importer = fresh_store(temporary), fresh_store(temporary, "importer")
        store.append(CONTEXT, CONV, list(RECORDS.values()))
        file = Path(temporary) / "records.jsonl.gz"
        export_records(store, all_workloads(store), file)
        content = bytearray(file.read_bytes())
        if data.draw(st.booleans()):
            del content[data.draw(st.integers(0, len(content) - 1)) :]
        else:
            content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        with suppress(InputError):  # where nothing usable is left
            import_records(importer, file)
        for stored in importer.load(CONTEXT, CONV):
            assert stored.record == BY_DIGEST[stored.digest]
