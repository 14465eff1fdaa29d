"""Kernels without a schedule in tables, on the page, and as lines of text."""

import io
import json

from rich.console import Console

from tests.report.conftest import gather
from tvmake.artifact.manifest import Manifest, Unscheduled, UnscheduledKernel
from tvmake.report.terminal import print_summary
from tvmake.report.unscheduled import unscheduled_lines

DYNAMIC = "its dimension 't' is dynamic"
SLOW = Unscheduled(
    time_share=0.97,
    kernels=[
        UnscheduledKernel(name="matmul", time_share=0.6, reason=DYNAMIC, dims=["t"]),
        UnscheduledKernel(name="softmax", time_share=0.3, reason=DYNAMIC, dims=["t"]),
        UnscheduledKernel(
            name="einsum", time_share=0.07, blocks=["copy"], reason="no rule takes its copy", is_tunable=True
        ),
    ],
)


def test_a_line_has_share_kernels_by_reason_and_what_to_type():
    start = (
        "97 % of the estimated time is in kernels without a schedule; matmul (60 %), softmax (30 %):"
        " its dimension 't' is dynamic; einsum (7 %): no rule takes its copy; what would help: "
    )
    assert list(unscheduled_lines(SLOW)) == [f"{start}`dims: {{t: SIZE}}`, `tuning: {{trials: TRIALS}}`"]


def test_what_takes_no_time_is_not_worth_a_line_and_a_failed_layout_is():
    assert not list(unscheduled_lines(Unscheduled(time_share=0.004)))
    assert not list(unscheduled_lines(None))
    (line,) = unscheduled_lines(Unscheduled(layout_failure="why"))
    assert line.endswith("TVM cannot convert the network (why)")


def test_more_than_a_half_is_a_warning_of_its_row_and_less_is_a_figure(run):
    run.add(model="slow", unscheduled=SLOW)
    run.add(model="fast", unscheduled=Unscheduled(time_share=0.2))
    run.add(model="former")
    slow, fast, former = gather(run.request).rows
    assert [row.unscheduled_share for row in (slow, fast, former)] == [0.97, 0.2, None]
    assert [any(text.startswith("kernels: ") for text in row.warnings) for row in (slow, fast, former)] == [
        True,
        False,
        False,
    ]


def test_the_table_has_the_share_of_each_row(run):
    run.add(model="slow", unscheduled=SLOW)
    run.add(model="former")
    text = io.StringIO()
    print_summary(gather(run.request), Console(file=text))
    header, slow, former = text.getvalue().splitlines()[:3]
    end = header.index("unscheduled") + len("unscheduled")
    assert slow[:end].endswith(" 97 %")
    assert former[:end].endswith(" –")


def test_the_page_lists_the_kernels_with_reason_and_remedy_and_marks_the_share(run):
    run.add(model="slow", unscheduled=SLOW)
    run.report()
    page = run.file("index.html").read_text()
    assert '<span class="fail">97 %</span>' in page
    for text in (
        "Without a schedule",
        "its dimension &#39;t&#39; is dynamic",
        "`dims: {t: SIZE}`",
        "no rule takes its copy",
    ):
        assert text in page


def test_manifests_of_earlier_versions_load_and_keep_their_digest(run):
    variant = run.add()
    content = json.loads(run.path(variant, "mod.json").read_text())
    assert "unscheduled" not in content
    assert Manifest.model_validate(content).is_intact
