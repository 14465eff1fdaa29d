"""best.json."""

from pathlib import Path

import pytest

from tests.tune.replayed import record
from tvmake.artifact import stage_json
from tvmake.errors import InputError
from tvmake.records.best import BestKernel, BestSet


def test_a_set_is_read_as_it_was_written_and_finds_kernels_by_workload(tmp_path: Path):
    tuned = BestKernel(workload="a" * 64, name="conv", calls=2, flops=1e6, record=record([[], []]), latency_ms=1.0)
    missed = BestKernel(workload="b" * 64, name="dense", calls=1, flops=1e3, reason="no candidate worked")
    best = BestSet(target="{}", generation="tvm-0", device_class="a phone", kernels=(tuned, missed))
    stage_json.save(best, tmp_path / "best.json")
    assert stage_json.load(BestSet, tmp_path / "best.json") == best
    assert best.by_workload() == {"a" * 64: tuned, "b" * 64: missed}


def test_a_damaged_set_is_refused(tmp_path: Path):
    (tmp_path / "best.json").write_text('{"kernels": 3}')
    with pytest.raises(InputError, match="not a BestSet"):
        stage_json.load(BestSet, tmp_path / "best.json")
