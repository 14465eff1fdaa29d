"""Packages with several functions: rows with sizes or the reason why there is none, and the choice of the best one."""

from pathlib import Path

import numpy as np
import pytest

from tvmake.artifact import stage_json
from tvmake.artifact.joined import Joined
from tvmake.config.requests.reporting import PackageEntry, ReportRequest
from tvmake.report.packages import PackageRow, package_line
from tvmake.report.rows import Summary, SummaryRow
from tvmake.report.selection import Choice, Selection
from tvmake.stages import registry
from tvmake.stages.results.report import write_report
from tvmake.stages.results.select import write_selection
from tvmake.storage.files import digest_file

FUNCTIONS = ("chat.decode", "chat.encode")


def samples(median_ms: float) -> list[float]:
    return (median_ms * (1 + 0.01 * np.random.RandomState(0).randn(20))).tolist()


def add_functions(run, precision: str, decode_ms: float, encode_ms: float, **encode) -> PackageEntry:
    """Add a variant of two functions, and their joined package."""
    variants = [
        run.add(model="chat.decode", precision=precision, samples_ms=samples(decode_ms)),
        run.add(model="chat.encode", precision=precision, samples_ms=samples(encode_ms), **encode),
    ]
    package = file(run, "joined/package.tar", precision)
    package.parent.mkdir(parents=True)
    package.write_bytes(precision.encode() * 100)
    digests = [digest_file(run.path(variant, "package.tar")) for variant in variants]
    joined = Joined(
        functions=dict(zip(("decode", "encode"), digests, strict=True)),
        package_sha256=digest_file(package),
        package_bytes=package.stat().st_size,
        params_bytes=1_010_000,
        distinct_bytes=1_000_000,
    )
    stage_json.save(joined, file(run, "joined.json", precision))
    return PackageEntry(model="chat", precision=precision, target="cpu", functions=list(FUNCTIONS))


def file(run, artifact: str, precision: str) -> Path:
    return Path(registry.path(artifact, str(run.results), group="chat", precision=precision, target="cpu"))


def summary_of(run, *packages: PackageEntry, unmade: tuple[SummaryRow, ...] = ()) -> Summary:
    request: ReportRequest = run.request.model_copy(update={"packages": list(packages)})
    write_selection(request, unmade, run.file("selection.json"), run.file("best"))
    files = (run.file("summary.json"), run.file("summary.csv"), run.file("index.html"))
    return write_report(request, run.file("selection.json"), unmade, *files)


def choice(run) -> Choice:
    (known,) = stage_json.load(Selection, run.file("selection.json")).choices
    return known


def test_the_best_package_is_the_one_whose_first_function_is_the_fastest(run):
    packages = [add_functions(run, "float32", 2.0, 1.0), add_functions(run, "float16", 1.0, 9.0)]
    summary = summary_of(run, *packages)
    chosen = choice(run)
    assert (chosen.model, chosen.device, chosen.chosen) == ("chat", "local", "chat/float16/cpu")
    assert chosen.package == "chat/float16/cpu/package.tar"
    assert (run.file("best") / "chat/local/package.tar").read_bytes() == b"float16" * 100
    assert [(loser.variant, loser.why) for loser in chosen.losers] == [("chat/float32/cpu", "slower")]
    assert {row.variant for row in summary.rows if row.best} == {f"{name}/float16/cpu" for name in FUNCTIONS}
    assert [(row.precision, row.best) for row in summary.packages] == [("float32", False), ("float16", True)]


def test_a_function_that_misses_its_goals_excludes_the_package(run):
    packages = [add_functions(run, "float32", 2.0, 1.0), add_functions(run, "float16", 1.0, 1.0, error=0.5)]
    summary_of(run, *packages)
    (loser,) = choice(run).losers
    assert (loser.variant, loser.why) == ("chat/float16/cpu", "missed")
    assert loser.reason.startswith("chat.encode: missed allclose of logits")


def test_a_row_has_the_sizes_of_the_package_and_its_weights(run):
    (row,) = summary_of(run, add_functions(run, "float32", 1.0, 1.0)).packages
    assert (row.package_bytes, row.params_bytes, row.distinct_bytes) == (700, 1_010_000, 1_000_000)
    assert (
        package_line(row) == "package with decode, encode: 700 bytes, 1.0 MB of weights, 1.01 × the distinct ones, best"
    )


def test_a_function_that_failed_is_the_reason_for_no_package(run):
    entry = add_functions(run, "float32", 1.0, 1.0)
    del run.variants[1]
    names = {"model": "chat.encode", "precision": "float32", "target": "cpu", "device": "local"}
    failed = SummaryRow(**names, verdict="failed", stage="build", cause="no g++")
    summary = summary_of(run, entry, unmade=(failed,))
    assert [row.verdict for row in summary.rows] == ["pass", "failed"]
    assert summary.packages == [
        PackageRow(
            model="chat", precision="float32", target="cpu", cause="chat.encode/float32/cpu: build: no g++",
            functions=["chat.decode/float32/cpu", "chat.encode/float32/cpu"],
        )
    ]  # fmt: skip
    (loser,) = choice(run).losers
    assert (loser.why, loser.reason) == ("failed", "chat.encode: failed at build: no g++")


def test_the_page_has_a_table_of_packages(run):
    shared = {f"past_{number}": ["decode", "encode"] for number in range(6)}
    notes = ["the state 'h' is not shared"]
    entry = add_functions(run, "float32", 1.0, 1.0)
    record = file(run, "joined.json", "float32")
    joined = stage_json.load(Joined, record).model_copy(update={"shared_states": shared, "notes": notes})
    stage_json.save(joined, record)
    missing = PackageEntry(model="chat", precision="int8", target="cpu", functions=list(FUNCTIONS))
    summary = summary_of(run, entry, missing)
    assert [row.shared_states for row in summary.packages] == [shared, {}]
    page = run.file("index.html").read_text()
    table = page.partition('id="joined"')[2].partition("</section>")[0]
    assert ">chat/float32/cpu</a>" in table
    assert '<a href="#variant-1">decode</a>, <a href="#variant-2">encode</a>' in table
    assert "700 bytes" in table
    assert table.count("1.0 MB") == 2
    assert "past_0, past_1, past_2, past_3 and 2 more by decode and encode" in table
    assert "the state &#39;h&#39; is not shared" in table
    assert "chat.decode/int8/cpu: it was not made" in table


def test_the_page_has_no_such_table_without_packages(run):
    run.add(samples_ms=samples(1.0))
    summary_of(run)
    assert 'id="joined"' not in run.file("index.html").read_text()


@pytest.mark.parametrize("gone", ["joined.json", "joined/package.tar"])
def test_functions_that_were_not_joined_are_no_package(run, gone: str):
    entry = add_functions(run, "float32", 1.0, 1.0)
    file(run, gone, "float32").unlink()
    (row,) = summary_of(run, entry).packages
    assert row.cause == "it was not joined; `tvmake logs chat/float32/cpu` prints why"
    assert choice(run).chosen is None


def test_a_package_of_other_functions_does_not_count(run):
    entry = add_functions(run, "float32", 1.0, 1.0)
    record = file(run, "joined.json", "float32")
    joined = stage_json.load(Joined, record)
    stage_json.save(joined.model_copy(update={"functions": {**joined.functions, "encode": "0" * 64}}), record)
    (row,) = summary_of(run, entry).packages
    assert row.package is None
