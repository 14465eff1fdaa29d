"""Features of measured candidates, stored for the cost models of other jobs."""

from pathlib import Path

import numpy as np
import pytest

from tvmake.records.record import TuningContext
from tvmake.tune.search import transfer
from tvmake.tune.search.transfer import MAX_CANDIDATES, KernelFeatures, load, save

CONTEXT = TuningContext(generation="tvm-0", target="{}", device_class="cpu")
OTHER = TuningContext(generation="tvm-0", target='{"kind":"cuda"}', device_class="cpu")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))
    return tmp_path


def key(number: int) -> str:
    return f"{number:064x}"


def features_of(number: int, candidates: int) -> KernelFeatures:
    """Candidates with one to three stores each."""
    draw = np.random.default_rng(number)
    features = [draw.random((1 + place % 3, 4), "float32") for place in range(candidates)]
    return KernelFeatures(f"group{number}", features, draw.random(candidates, "float32") + 0.1)


def test_features_of_one_job_are_loaded_by_another():
    kept = features_of(1, 5)
    save(CONTEXT, key(1), kept)
    (found,) = load(CONTEXT, key(2), seed=0)
    assert found.group == "group1"
    np.testing.assert_array_equal(found.costs, kept.costs)
    assert [one.tolist() for one in found.features] == [one.tolist() for one in kept.features]


def test_a_job_does_not_load_its_own_kernel_or_other_contexts():
    save(CONTEXT, key(1), features_of(1, 5))
    save(OTHER, key(2), features_of(2, 5))
    assert load(CONTEXT, key(1), seed=0) == []


def test_many_features_are_thinned_evenly_and_the_best_candidates_stay():
    kept = [features_of(number, 60) for number in range(100)]
    for number, one in enumerate(kept):
        save(CONTEXT, key(number), one)
    found = load(CONTEXT, key(1000), seed=3)
    assert 0 < sum(len(one.costs) for one in found) <= MAX_CANDIDATES
    best = {one.group: one.costs.min() for one in kept}
    assert all(one.costs.min() == best[one.group] for one in found)
    assert [one.group for one in found] == [one.group for one in load(CONTEXT, key(1000), seed=3)]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 torn", b"no archive at all"])
def test_a_damaged_file_is_forgotten(damage: bytes, own_home: Path):
    save(CONTEXT, key(1), features_of(1, 5))
    (path,) = own_home.rglob("*.npz")
    path.write_bytes(damage)
    assert load(CONTEXT, key(2), seed=0) == []
    assert not path.exists()


def test_an_unwritable_directory_is_not_a_failure(own_home: Path):
    (own_home / "transfer").write_text("in the way")
    save(CONTEXT, key(1), features_of(1, 5))
    assert load(CONTEXT, key(2), seed=0) == []
    assert transfer.transfer_root().is_file()
