import csv
import json

import pytest

from tests.report.conftest import gather
from tvmake.artifact import stage_json
from tvmake.artifact.calibration import Calibration, Kept
from tvmake.artifact.source import SourceRecord
from tvmake.config.validation import Goals
from tvmake.errors import InputError
from tvmake.report.rows import SummaryRow, tuned_text


def test_a_variant_that_meets_its_goals_passes_with_its_figures(run):
    run.add(tuned=4)
    (row,) = gather(run.request).rows
    assert (row.verdict, row.missed, row.tuned) == ("pass", [], "yes")
    assert (row.percentile, row.latency_ms, row.p50_ms, row.latency_samples) == ("p50", 1.0, 1.0, 10)
    assert (row.top1, row.reference_top1, row.top1_drop, row.max_abs) == (1.0, 1.0, 0.0, 0.0)
    assert (row.device, row.soc, row.load_ms, row.peak_memory_bytes) == ("local", "Test SoC", 3.5, 50_000_000)
    assert row.package == "digits/float32/cpu/package.tar"
    assert row.package_bytes == (run.results / row.package).stat().st_size
    assert row.params_bytes == len(b"weights")


def test_a_variant_that_misses_a_goal_fails_and_says_which(run):
    run.add(error=0.5, goals=Goals(sqnr_db=40.0, top1=0.999))
    (row,) = gather(run.request).rows
    assert row.verdict == "fail"
    assert [goal.goal for goal in row.missed] == ["sqnr_db", "top1"]
    assert row.sqnr_db < 40
    assert row.top1 < 0.999


def test_a_variant_whose_outputs_are_no_numbers_has_no_figures_of_the_others(run):
    run.add(error=float("nan"), labelled=False)
    (row,) = gather(run.request).rows
    assert row.verdict == "fail"
    assert [goal.goal for goal in row.missed] == ["finite"]
    assert (row.sqnr_db, row.cosine, row.max_abs) == (None, None, None)


def test_a_target_without_a_device_is_not_run_and_needs_no_figures(run):
    run.add(target="phone", device=None)
    (row,) = gather(run.request).rows
    assert row.verdict == "not run"
    assert (row.device, row.soc, row.p50_ms, row.sqnr_db, row.noisy) == (None, None, None, None, None)
    assert row.package_bytes > 0


@pytest.mark.parametrize(
    ("tuned", "tunable", "said", "share", "text"),
    [
        (0, 4, "no", 0, "no"),
        (3, 4, "partly", 0.75, "partly (3/4, 75 % of time)"),
        (4, 4, "yes", 1, "yes (4/4)"),
        (0, 0, "no", None, "nothing to"),
    ],
)
def test_tuned_says_how_many_kernels_use_a_record_and_what_share_of_the_time_that_is(
    run, tuned, tunable, said, share, text
):
    run.add(tuned=tuned, tunable=tunable)
    (row,) = gather(run.request).rows
    assert (row.tuned, row.tuned_kernels, row.tunable_kernels, row.tuned_share) == (said, tuned, tunable, share)
    assert tuned_text(row) == text


def test_latency_is_the_percentile_that_the_measurement_ranks_by(run):
    run.add(samples_ms=[1.0] * 8 + [2.0] * 2, percentile="p90")
    (row,) = gather(run.request).rows
    assert (row.percentile, row.p50_ms, row.latency_ms) == ("p90", 1.0, row.p90_ms)
    assert row.p90_ms > 1.0


def test_a_noisy_measurement_is_marked_and_explained(run):
    run.add(samples_ms=[1.0, 2.0, 1.0, 2.0])
    (row,) = gather(run.request).rows
    assert row.noisy
    assert any("noisy: samples vary by" in warning for warning in row.warnings)


def test_latencies_of_one_device_name_on_two_kinds_of_hardware_are_warned_of(run):
    run.add(soc="Fast SoC")
    run.add(precision="float16", soc="Slow SoC")
    (warning,) = gather(run.request).warnings
    assert "device 'local'" in warning
    assert "2 different devices" in warning


def test_the_processor_and_the_gpu_of_a_machine_may_be_compared(run):
    run.add()
    run.add(precision="float16", kind="opencl")
    assert gather(run.request).warnings == []


@pytest.mark.parametrize("artifact", ["package.tar", "mod.json", "numerics.json", "latency.json"])
def test_a_missing_file_is_named(run, artifact):
    path = run.path(run.add(), artifact)
    path.unlink()
    with pytest.raises(InputError) as caught:
        gather(run.request)
    assert caught.value.where == str(path)


def test_figures_of_another_package_are_refused(run):
    variant = run.add()
    run.path(variant, "package.tar").write_bytes(b"a package made since")
    with pytest.raises(InputError, match="do not belong to"):
        gather(run.request)


def test_a_figure_that_is_not_a_number_is_refused_with_the_variant_named(run):
    path = run.path(run.add(), "latency.json")
    content = json.loads(path.read_text())
    content["report"]["statistics"]["p50_ms"] = float("nan")
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        gather(run.request)
    assert caught.value.where == "digits/float32/cpu"
    assert caught.value.problem == "latency_ms: input should be a finite number"


def test_the_summary_holds_no_nan_even_for_outputs_that_do(run):
    run.add(error=float("nan"))
    run.add(precision="float16", error=float("inf"))
    run.add(target="phone", device=None)
    run.report()

    def refuse(constant):
        raise AssertionError(f"{constant} in summary.json")

    rows = json.loads(run.file("summary.json").read_text(), parse_constant=refuse)["rows"]
    assert [row["verdict"] for row in rows] == ["fail", "fail", "not run"]


def test_csv_columns_are_the_rows_fields_in_order_whatever_the_rows_hold(run, another_run):
    run.add()
    another_run.add(target="phone", device=None)
    for each in (run, another_run):
        each.report()
        header = each.file("summary.csv").read_text().splitlines()[0]
        assert header.split(",") == [name for name in SummaryRow.model_fields if name != "samples_ms"]
    assert header.startswith("model,precision,target,device,soc,verdict,best,missed,warnings,tuned,")


def test_csv_reads_back_with_lists_in_one_field_and_nothing_for_none(run):
    run.add(error=0.5, goals=Goals(sqnr_db=40.0, cosine=0.9999))
    run.add(target="phone", device=None)
    run.report()
    with run.file("summary.csv").open(newline="") as file:
        failed, unrun = csv.DictReader(file)
    assert failed["missed"].count("; ") == 1
    assert failed["noisy"] == "false"
    assert float(failed["p50_ms"]) == 1.0
    assert (unrun["p50_ms"], unrun["device"], unrun["missed"]) == ("", "", "")


def test_what_ranges_come_from_and_what_stays_in_float_is_reported(run):
    kept = [Kept(operator="matmul", name=f"lv{number}", reason="it has no weight") for number in range(5)]
    calibration = Calibration(
        data="random", samples=4, method="minmax", ranges=[], kept=kept, warnings=["ranges come from 4 random inputs"]
    )
    run.add(precision="int8", calibration=calibration)
    (row,) = gather(run.request).rows
    assert row.warnings[0] == "int8: ranges come from 4 random inputs"
    assert row.warnings[1].startswith("int8: 0 of 5 convolutions and matmuls use integers; in float32: matmul 'lv0', ")
    assert row.warnings[1].endswith("and 2 more (calibration.json) because it has no weight")


def test_what_is_slow_in_the_source_is_a_warning_with_its_remedy(run):
    run.add()
    (variant,) = run.request.variants
    record = SourceRecord(source="m.mlir", format="stablehlo", files={}, notes={"slow": ["a loop; unroll it"]})
    stage_json.save(record, run.path(variant, "source.json"))
    (row,) = gather(run.request).rows
    assert "source: a loop; unroll it" in row.warnings
