"""Dropping records on purpose, and nothing else."""

from datetime import UTC, datetime

import pytest

from tests.records.examples import CONTEXT, CONV, DENSE, OLD_CONTEXT, digests, files, record, verdict
from tvmake.records.prune import PruneResult, Rules, prune

OLD, NEW = "2025-12-31T23:59:59+00:00", "2026-01-01T00:00:00+00:00"


@pytest.fixture
def filled(store):
    wrong = record(5, ms=0.1, at=OLD)
    fast = [record(number, ms=float(number)) for number in (4, 3, 2, 1)]
    failed = [record(6, ms=None, at=OLD), record(7, ms=None, at=NEW)]
    store.append(CONTEXT, CONV, [*fast, wrong, *failed, verdict(wrong, False), verdict(fast[3], True)])
    store.append(OLD_CONTEXT, DENSE, [record(8)])
    store.define(CONTEXT, CONV, {"name": "conv"})
    return store


def kept(store) -> list[int]:
    return [one.record.seed for one in store.load(CONTEXT, CONV)]


def test_nothing_is_dropped_unless_it_is_applied(filled):
    before = files(filled.root)
    rules = Rules(keep_best=1, failures_before=datetime(2027, 1, 1, tzinfo=UTC), keep_generation=CONTEXT.generation)
    assert sum(one.dropped for one in prune(filled, rules)) == 7
    assert files(filled.root) == before


def test_the_best_are_kept_and_failures_with_them(filled):
    assert PruneResult(CONTEXT, CONV, dropped=2, kept=5) in prune(filled, Rules(keep_best=2), apply=True)
    assert kept(filled) == [2, 1, 5, 6, 7]
    assert [one.verdict.right for one in filled.load(CONTEXT, CONV) if one.verdict] == [True, False]


def test_failures_and_wrong_ones_before_a_moment_are_dropped(filled):
    rules = Rules(failures_before=datetime(2026, 1, 1, tzinfo=UTC))
    assert prune(filled, rules, apply=True) == [PruneResult(CONTEXT, CONV, dropped=2, kept=5)]
    assert kept(filled) == [4, 3, 2, 1, 7]


def test_other_generations_are_dropped_whole(filled):
    prune(filled, Rules(keep_generation=CONTEXT.generation), apply=True)
    assert filled.contexts() == [CONTEXT]
    assert not (filled.root / OLD_CONTEXT.generation).exists()
    assert len(kept(filled)) == 7


def test_pruning_again_drops_nothing_more(filled):
    rules = Rules(keep_best=1, failures_before=datetime(2027, 1, 1, tzinfo=UTC), keep_generation=CONTEXT.generation)
    prune(filled, rules, apply=True)
    before = files(filled.root)
    assert prune(filled, rules, apply=True) == []
    assert files(filled.root) == before
    assert filled.description(CONTEXT, CONV) == {"name": "conv"}


def test_bad_lines_are_set_aside_not_dropped(filled):
    journal = filled.journal(CONTEXT, CONV)
    with journal.path.open("ab") as file:
        file.write(b"noise\n")
    prune(filled, Rules(keep_best=1), apply=True)
    assert journal.count_quarantined() == 1
    filled.append(CONTEXT, CONV, [record(9)])
    assert digests(filled.load(CONTEXT, CONV))[-1] == record(9).digest
