"""Features of measured candidates, kept for the cost models of other jobs."""

from pathlib import Path

import numpy as np
import pytest

from tvmake.records.record import Place
from tvmake.tune import lessons
from tvmake.tune.lessons import MOST, Lesson, keep, recall

PLACE = Place(generation="tvm-0", target="{}", device_class="cpu")
OTHER = Place(generation="tvm-0", target='{"kind":"cuda"}', device_class="cpu")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))
    return tmp_path


def key(number: int) -> str:
    return f"{number:064x}"


def lesson(number: int, candidates: int) -> Lesson:
    """Candidates with one to three stores each."""
    draw = np.random.default_rng(number)
    features = [draw.random((1 + place % 3, 4), "float32") for place in range(candidates)]
    return Lesson(f"group{number}", features, draw.random(candidates, "float32") + 0.1)


def test_what_one_job_keeps_another_recalls():
    kept = lesson(1, 5)
    keep(PLACE, key(1), kept)
    (found,) = recall(PLACE, key(2), seed=0)
    assert found.group == "group1"
    np.testing.assert_array_equal(found.costs, kept.costs)
    assert [one.tolist() for one in found.features] == [one.tolist() for one in kept.features]


def test_a_job_does_not_recall_its_own_kernel_nor_other_places():
    keep(PLACE, key(1), lesson(1, 5))
    keep(OTHER, key(2), lesson(2, 5))
    assert recall(PLACE, key(1), seed=0) == []


def test_many_lessons_are_thinned_evenly_and_the_best_candidates_stay():
    kept = [lesson(number, 60) for number in range(100)]
    for number, one in enumerate(kept):
        keep(PLACE, key(number), one)
    found = recall(PLACE, key(1000), seed=3)
    assert 0 < sum(len(one.costs) for one in found) <= MOST
    best = {one.group: one.costs.min() for one in kept}
    assert all(one.costs.min() == best[one.group] for one in found)
    assert [one.group for one in found] == [one.group for one in recall(PLACE, key(1000), seed=3)]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 torn", b"no archive at all"])
def test_a_damaged_lesson_is_forgotten(damage: bytes, own_home: Path):
    keep(PLACE, key(1), lesson(1, 5))
    (path,) = own_home.rglob("*.npz")
    path.write_bytes(damage)
    assert recall(PLACE, key(2), seed=0) == []
    assert not path.exists()


def test_a_place_that_cannot_be_written_is_no_failure(own_home: Path):
    (own_home / "lessons").write_text("in the way")
    keep(PLACE, key(1), lesson(1, 5))
    assert recall(PLACE, key(2), seed=0) == []
    assert lessons.lessons_root().is_file()
