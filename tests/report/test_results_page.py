from pathlib import Path

import pytest

from tvmake.artifact.manifest import Coverage, Manifest
from tvmake.benchmark.result import Latency, LatencyReport
from tvmake.report.rows import Summary, SummaryRow
from tvmake.stages.registry import patterns
from tvmake.validate.numerics import NumericsReport
from tvmake.validate.result import Numerics

PAGE = (Path(__file__).parents[2] / "docs/reference/results.md").read_text()


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("title", "models"),
    [
        ("summary.json", (Summary, SummaryRow)),
        ("numerics.json", (Numerics, NumericsReport)),
        ("latency.json", (Latency, LatencyReport)),
        ("mod.json", (Manifest, Coverage)),
    ],
)
def test_every_field_of_a_results_file_is_documented(title, models):
    fields = {name for model in models for name in model.model_fields}
    assert {name for name in fields if f"`{name}`" not in section(title)} == set()


def test_every_file_of_a_run_is_documented():
    names = {pattern.rpartition("/")[2] for pattern in patterns().values()}
    documented = section("Files")
    assert {name for name in names if name not in documented} == set()


def test_the_documented_row_fields_are_in_csv_order():
    table = section("summary.json").partition("| field |")[2]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [name.strip(" `") for cell in first_cells for name in cell.split(",")] == list(SummaryRow.model_fields)
