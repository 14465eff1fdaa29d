"""What the scripts say that race and compare packages with dynamic and with fixed dimensions."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def importable_scripts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def package(directory: Path, code: bytes = b"code", **manifest: object) -> Path:
    directory.mkdir()
    (directory / "mod.so").write_bytes(code)
    (directory / "mod.params").write_bytes(b"weights")
    (directory / "mod.json").write_text(json.dumps({"kernels": [{"name": "conv2d", "calls": 1}], **manifest}))
    return directory


def test_packages_that_differ_in_versions_alone_are_equal(tmp_path: Path):
    from compare_packages import differences

    assert not differences(
        package(tmp_path / "ours", tvmake_version="2"), package(tmp_path / "base", tvmake_version="1")
    )


def test_files_and_keys_that_differ_are_named(tmp_path: Path):
    from compare_packages import differences

    ours = package(tmp_path / "ours", b"other code", kernels=[{"name": "conv2d", "calls": 2}], unscheduled=0.5)
    assert differences(ours, package(tmp_path / "base")) == ["mod.so", "mod.json (kernels[0].calls, unscheduled)"]


def test_kernels_of_two_packages_are_paired_by_operators_and_shape():
    from kernel_times import Call, matched

    dynamic = [Call("fused_conv2d_add", "1×8×8×4"), Call("transpose1", "1×4×64"), Call("fused_matmul3_add", "1×10")]
    fixed = [Call("fused_conv2d_winograd_add2", "1×8×8×4"), Call("fused_matmul_reshape_add", "1×10")]
    pairs = matched(dynamic, fixed)
    assert pairs == [(dynamic[0], fixed[0]), (dynamic[1], None), (dynamic[2], fixed[1])]


def test_an_output_of_another_shape_or_without_a_number_is_infinitely_wrong():
    from dynamic_dimensions import largest_errors

    values = np.float32([[1, -4]])
    assert largest_errors([values + 1], [values]) == (1.0, 0.25)
    assert largest_errors([values[0]], [values])[1] == np.inf
    assert largest_errors([values * np.nan], [values])[1] == np.inf


def test_the_table_has_the_latest_rows_and_the_reason_of_a_network_that_fails():
    from dynamic_dimensions import table

    head = {"network": "encoder", "threads": 1, "size": "1x16"}
    figures = {"spread": {"dynamic": 0.1}, "relative_error": 1e-6, "build_s": {"dynamic": 3.0, "fixed": 2.0}}
    old = {**head, **figures, "sources": "old", "min_ms": {"dynamic": 9.0, "fixed": 1.0, "onnxruntime": 1.0}}
    new = {**old, "sources": "new", "min_ms": {"dynamic": 3.0, "fixed": 2.0, "onnxruntime": 4.0}}
    failed = {"network": "unet", "threads": 1, "size": "all", "sources": "new", "problem": "InputError: no"}
    lines = table([old, new, failed]).splitlines()
    assert "| encoder | 1x16 | 1 | 3.000 | 10 % | 1.50 | 0.75 | 1e-06 | 1.50 |" in lines
    assert not any("9.00" in line for line in lines)
    assert any(line.startswith("| unet | all | 1 | InputError: no |") for line in lines)


def test_a_published_file_that_is_refused_is_a_line_with_the_reason(tmp_path: Path):
    from building import Checkout
    from published import lines

    (tmp_path / "empty.onnx").touch()
    *_, line = lines(
        Checkout(), tmp_path / "cache", tmp_path, [{"package": "none", "file": "empty.onnx"}], with_fixed=False
    )
    assert line.startswith("| none: empty | ") and "empty.onnx" in line


def test_published_files_are_listed_with_sizes_of_dimensions():
    from published import LIST

    entries = yaml.safe_load(LIST.read_text())
    assert len({entry["file"] for entry in entries}) == len(entries) >= 40
    assert all(
        isinstance(extent, int) for entry in entries for size in entry.get("sizes", []) for extent in size.values()
    )
