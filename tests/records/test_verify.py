"""The check of a store finds what is wrong, changes nothing, and finds nothing where nothing is."""

import os
import shutil

import pytest

from tests.records.examples import CONTEXT, CONV, DENSE, OTHER_CONTEXT, files, record, verdict
from tvmake.records.verify import verify


@pytest.fixture
def filled(store):
    store.append(CONTEXT, CONV, [record(1), record(2), verdict(record(1), True)])
    store.define(CONTEXT, CONV, {"name": "conv"})
    store.append(OTHER_CONTEXT, DENSE, [record(3)])
    return store


def test_a_sound_store_has_no_findings(filled):
    verified = verify(filled)
    assert (verified.contexts, verified.workloads, verified.records, verified.verdicts) == (2, 2, 3, 1)
    assert verified.findings == []


def test_an_empty_or_missing_store_has_no_findings(store):
    assert verify(store).findings == []


def replace(store, name: str, old: bytes, new: bytes) -> None:
    path = store.journal(CONTEXT, CONV).directory / name
    path.write_bytes(path.read_bytes().replace(old, new, 1))


DAMAGE = {
    "a changed record": lambda store: replace(store, "records.jsonl", b"evolutionary", b"revolution!!"),
    "noise": lambda store: replace(store, "records.jsonl", b"\n", b"\nnoise\n"),
    "a changed description": lambda store: replace(store, "workload.json", b"conv", b"cnov"),
    "a changed context": lambda store: replace(store, "../place.json", b"Test", b"Tset"),
    "a missing context": lambda store: (store.directory(CONTEXT) / "place.json").unlink(),
    "another workload's records": lambda store: shutil.copy(
        store.journal(OTHER_CONTEXT, DENSE).path, store.journal(CONTEXT, CONV).path
    ),
    "a renamed workload": lambda store: (store.directory(CONTEXT) / CONV).rename(store.directory(CONTEXT) / DENSE),
    "a renamed context": lambda store: store.directory(CONTEXT).rename(store.directory(CONTEXT).with_name("0" * 64)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_left_unchanged(filled, damage):
    DAMAGE[damage](filled)
    before = files(filled.root)
    assert verify(filled).findings
    assert files(filled.root) == before


def test_what_a_killed_writer_left_and_what_was_set_aside_is_counted_but_no_finding(filled):
    replace(filled, "records.jsonl", b"evolutionary", b"revolution!!")
    filled.load(CONTEXT, CONV)
    filled.append(CONTEXT, CONV, [record(2)])
    path = filled.journal(OTHER_CONTEXT, DENSE).path
    os.truncate(path, path.stat().st_size - 10)
    verified = verify(filled)
    assert verified.findings == []
    assert (verified.set_aside, verified.duplicates, verified.cut_short) == (1, 1, 1)
