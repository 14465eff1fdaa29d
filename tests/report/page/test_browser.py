"""The pages as a browser shows them: layout, console, accessibility, and what its controls do."""

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from tests.report.conftest import STEADY, Run
from tests.report.page.browser import Browser
from tests.requirements import need
from tvmake.config.validation import Goals
from tvmake.report.rows import SummaryRow
from tvmake.stages.results.report import write_report
from tvmake.stages.results.select import write_selection

EVIL = "</script></style><img src=x onerror=alert(1)><script>alert(1)</script>\"'`${alert(1)}{{7*7}}"
"""Ends every context that a text may be put into."""


@pytest.fixture(scope="module")
def browser():
    need("Chromium")
    browser = Browser()
    yield browser
    browser.close()


def unmade(verdict: str, **values: str) -> SummaryRow:
    return SummaryRow(model="net", precision="float32", target="gpu", device="board", verdict=verdict, **values)


def report_all(run) -> Path:
    """A page with something in every section; three runs of it are known."""
    for factor in (1.3, 1.1, 1.0):
        run.variants.clear()
        run.remove()
        times = [factor * value for value in STEADY]
        kernels = [("fused_conv2d", 3.0), ("kernel_0", 1.0), ("vm.builtin.alloc", 0.5), ("kernel_9", 0.001)]
        run.add(samples_ms=[17 * value for value in times], kernels=kernels)
        run.add(target="tuned", samples_ms=times, tuned=4, kernels=kernels, curve=[(1, 0.5), (4, 0.25)])
        run.add(precision="float16", samples_ms=[1.0, 9.0, 2.0, 8.0, 1.0, 7.0], error=0.5, goals=Goals(sqnr_db=40.0))
        run.add(model="another", labelled=False)
        run.add(target="phone", device=None)
        rows = [
            unmade("failed", stage="build", cause="no compiler", remedy="get one"),
            unmade("not made", stage="tune"),
        ]
        files = [run.file(name) for name in ("summary.json", "summary.csv", "index.html")]
        write_selection(run.request, rows, run.file("selection.json"), run.file("best"))
        write_report(run.request, run.file("selection.json"), rows, *files)
        run.age_history()
    return run.file("index.html")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return report_all(Run(tmp_path_factory.mktemp("page")))


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_a_page_fits_the_window(browser, page, width):
    with browser.page(page, width) as tab:
        tab.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        too_wide = tab.evaluate(
            "[...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll') && !each.ownerSVGElement"
            f" && each.getBoundingClientRect().right > {width}).map((each) => each.outerHTML.slice(0, 100))"
        )
        assert too_wide == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        # Charts as wide as what holds them, with text of the same size at any width.
        charts = tab.evaluate(
            "[...document.querySelectorAll('body svg')].filter((svg) => !svg.ownerSVGElement)"
            ".map((svg) => [svg.clientWidth, svg.parentElement.clientWidth])"
        )
        assert charts
        assert all(0 < width <= outer for width, outer in charts)
        sizes = tab.evaluate(
            "[...document.querySelectorAll('svg text')].map((text) => Math.round(text.getBoundingClientRect().height))"
        )
        assert all(size in range(10, 19) for size in sizes)


BOXES = (
    "(elements) => [...elements].filter((each) => each.checkVisibility()).map((each) => {"
    "  const range = document.createRange(); range.selectNodeContents(each);"
    "  const box = each.ownerSVGElement || each.matches('.value') ? each.getBoundingClientRect() : range.getBoundingClientRect();"
    "  return [each.textContent, box.left, box.top, box.right, box.bottom]; })"
)
"""A function of elements: their texts and the boxes of these."""


def overlaps(boxes):
    """Pairs of texts of which one covers more than a pixel of the other."""
    return [
        (first[0], second[0])
        for first, second in combinations(boxes, 2)
        if min(first[3], second[3]) - max(first[1], second[1]) > 1
        and min(first[4], second[4]) - max(first[2], second[2]) > 1
    ]


@pytest.fixture(scope="module")
def large_page(tmp_path_factory) -> Path:
    """54 variants of six models: tuned and untuned, noisy, some as fast as others, two runs."""
    run = Run(tmp_path_factory.mktemp("large"))
    random = np.random.RandomState(0)
    for factor in (1.1, 1.0):
        run.variants.clear()
        run.remove()
        for number, (model, precision, target) in enumerate(
            product(range(6), ("float32", "float16", "int8"), ("cpu", "cpu-tuned", "phone-opencl"))
        ):
            spread = 0.5 if number % 3 == 1 else 0.01
            base = factor * 3.0 ** (model - 2) * (1 + number % 5)
            samples = base * np.exp(spread * random.randn(20))
            run.add(
                model=f"resnet{18 + model}",
                precision=precision,
                target=target,
                samples_ms=samples.tolist(),
                tuned=4 * (target == "cpu-tuned"),
                error=1e-6 * 10 ** (number % 4),
                weights=b"weights" * (1 + number % 7),
            )
        run.report()
        run.age_history()
    return run.file("index.html")


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_labels_of_charts_do_not_overlap_and_nothing_is_clipped(browser, large_page, width):
    with browser.page(large_page, width) as tab:
        for chart in range(tab.evaluate("document.querySelectorAll('.panels figure, .plots figure').length")):
            figure = f"document.querySelectorAll('.panels figure, .plots figure')[{chart}]"
            boxes = tab.evaluate(f"({BOXES})({figure}.querySelectorAll('h3, text, .bar-row a, .value, li'))")
            assert overlaps(boxes) == []
            assert [box for box in boxes if box[1] < 0 or box[3] > width] == []
        # A text of an image is cut at the image's edges.
        assert tab.evaluate(
            "[...document.querySelectorAll('.plot text')].every((text) => {"
            "  const [box, image] = [text, text.ownerSVGElement].map((each) => each.getBoundingClientRect());"
            "  return box.left >= image.left - 1 && box.right <= image.right + 1 && box.top >= image.top - 1"
            "    && box.bottom <= image.bottom + 1; })"
        )
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_tables_come_before_charts(browser, page, width):
    with browser.page(page, width) as tab:
        edge = "document.querySelector('{}').getBoundingClientRect().{}"
        assert tab.evaluate(edge.format("#failures", "bottom")) <= tab.evaluate(edge.format(".panels", "top"))


def test_54_variants_are_on_two_screens(browser, large_page):
    with browser.page(large_page, 1280, 900) as tab:
        bottom = "document.querySelector('.panels').getBoundingClientRect().bottom"
        assert tab.evaluate(bottom) <= 2 * 900
        bars = "document.querySelectorAll('.panels .bar-row').length"
        assert tab.evaluate(bars) == 54


def test_details_stay_closed_if_many_variants_miss_goals(browser, page, large_page):
    opened = "document.querySelectorAll('details[id][open]').length"
    with browser.page(page) as tab:
        assert tab.evaluate(opened) >= 1
    with browser.page(large_page) as tab:
        assert tab.evaluate("document.querySelectorAll('#results .fail').length") > 5
        assert tab.evaluate(opened) == 0


@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_the_mark_of_noise_is_in_the_line_of_its_value(browser, large_page, width):
    with browser.page(large_page, width) as tab:
        lines = "[...document.querySelectorAll('.bar-row .value')].map((each) => each.getBoundingClientRect().height"
        lines += " / parseFloat(getComputedStyle(each).lineHeight))"
        assert max(tab.evaluate(lines)) < 1.5


def test_noise_is_one_line(browser, large_page):
    with browser.page(large_page) as tab:
        lines = tab.evaluate(
            "[...document.querySelectorAll('main > section > p.weak')].map((line) => line.textContent)"
        )
        assert [line.partition(":")[0] for line in lines] == ["18 of 54 variants are noisy (~)"]


def test_noise_does_not_set_the_scale_of_bars(browser, tmp_path):
    run = Run(tmp_path)
    run.add()
    run.add(target="noisy", samples_ms=[1.0, 1.1, 1.0, 0.9, 300.0, 400.0, 1.0, 1.0])
    run.report()
    with browser.page(run.file("index.html")) as tab:
        share = "each.getBoundingClientRect().width / each.ownerSVGElement.getBoundingClientRect().width"
        widths = tab.evaluate(f"[...document.querySelectorAll('rect.bar')].map((each) => {share})")
        assert min(widths) > 0.9
        assert tab.evaluate("document.querySelectorAll('path.whisker').length") == 1


def test_the_filter_applies_to_tables_charts_and_details(browser, large_page):
    with browser.page(large_page) as tab:
        tab.evaluate(
            "{ const input = document.querySelector('.filter input'); input.value = 'resnet20 float16';"
            " input.dispatchEvent(new Event('input')); }"
        )
        count = "[...document.querySelectorAll('{}')].filter((each) => each.getBoundingClientRect().height > 0).length"
        assert tab.evaluate(count.format("#results tbody tr")) == 3
        assert tab.evaluate(count.format(".panels figure")) == 1
        assert tab.evaluate(count.format(".panels .bar-row")) == 3
        assert tab.evaluate(count.format("#runs tbody tr")) == 3
        assert tab.evaluate(count.format("details[id]")) == 3
        marks, entries = (tab.evaluate(count.format(f".plots {name}")) for name in ("g[data-variant]", "li"))
        assert marks == entries > 0
        assert tab.evaluate("document.querySelector('.plots li:not([hidden])').value") > 1  # as at its mark


def test_two_runs_of_choice_are_compared(browser, page):
    with browser.page(page) as tab:
        cells = "[...document.querySelectorAll('#runs tbody tr')][1].cells"
        assert tab.evaluate(f"[...{cells}].map((cell) => cell.textContent.split(',')[0]).slice(2)") == [
            "1.100",
            "1.000",
            "-9.1 % (-9.5 … -8.6 %)",
        ]
        titles = tab.evaluate(
            "[...document.querySelectorAll('.controls[data-for=runs] select')].map((each) => each.length)"
        )
        assert titles == [3, 3]
        tab.evaluate(
            "{ const choice = document.querySelector('.controls[data-for=runs] select'); choice.value = '0';"
            " choice.dispatchEvent(new Event('change')); }"
        )
        assert tab.evaluate(f"{cells}[2].textContent") == "1.300"
        assert tab.evaluate(f"{cells}[4].className") == "faster"


def test_a_network_lists_its_operators_with_their_shares_of_the_time(browser, page):
    with browser.page(page) as tab:
        rows = "[...document.querySelectorAll('#variant-1 .network tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
        found = tab.evaluate(rows)
        assert [row[0] for row in found] == ["lv0", "lv1", "lv2", "lv3"]
        assert found[0] == ["lv0", "fused_conv2d", "x", "1 × 8 float32", "", "66.7 %", ""]


def test_names_of_any_length_leave_figures_whole(browser, tmp_path):
    """A fused kernel's name has a hundred letters and more; the rate beside it was broken into single ones."""
    run = Run(tmp_path)
    run.add(kernel_name="fused_" + "conv2d_add_" * 20, curve=[(1, 0.5), (4, 0.25)], tuned=4)
    run.report()
    with browser.page(run.file("index.html"), 800) as tab:
        tab.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        rate = "document.querySelector('.curves figcaption > :last-child')"
        assert tab.evaluate(f"{rate}.textContent") == "4000 GFLOPS"
        tab.evaluate(f"window.lines = document.createRange(); lines.selectNodeContents({rate})")
        assert tab.evaluate("new Set([...lines.getClientRects()].map((box) => box.top)).size") == 1


def test_a_page_fetches_nothing_and_the_browser_has_nothing_to_complain_of(browser, page):
    with browser.page(page) as tab:
        assert tab.complaints() == []
        assert tab.requests() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_is_accessible(browser, page, dark):
    with browser.page(page, dark=dark) as tab:
        tab.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert tab.violations() == []


def test_the_check_of_accessibility_finds_what_is_wrong(browser, tmp_path):
    wrong = tmp_path / "wrong.html"
    wrong.write_text("<!doctype html><title>x</title><html><img src='data:,'><p style='color:#eee'>pale</p></html>")
    with browser.page(wrong) as tab:
        rules = {line.partition(":")[0] for line in tab.violations()}
        assert {"image-alt", "color-contrast", "html-has-lang"} <= rules


def test_every_section_is_there_and_failed_rows_stand_apart(browser, page):
    with browser.page(page) as tab:
        sections = tab.evaluate("[...document.querySelectorAll('h2')].map((head) => head.textContent)")
        assert sections == [
            "At a glance",
            "Variants",
            "Built but not run",
            "Failed and not built",
            "Latency",
            "Latency against accuracy and size",
            "Tuning",
            "Earlier runs",
            "Variant by variant",
            "Devices",
        ]
        rows = "[...document.querySelectorAll('#{} tbody tr')].map((row) => row.cells[3].textContent)"
        assert set(tab.evaluate(rows.format("results"))) == {"pass", "fail"}
        assert tab.evaluate(rows.format("packages")) == ["not run"]
        assert tab.evaluate(rows.format("failures")) == ["failed", "not made"]


def test_the_table_sorts_filters_and_groups(browser, page):
    shown = (
        "[...document.querySelectorAll('#results tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => row.cells.length > 1 ? row.cells[5].textContent.split(' ')[0] : row.textContent)"
    )
    with browser.page(page) as tab:
        tab.evaluate("document.querySelectorAll('#results th button')[5].click()")
        assert tab.evaluate(shown) == ["1.000", "1.000", "4.500", "17.00"]
        tab.evaluate("document.querySelectorAll('#results th button')[5].click()")
        assert tab.evaluate(shown) == ["17.00", "4.500", "1.000", "1.000"]
        assert tab.evaluate("document.querySelectorAll('#results th')[5].getAttribute('aria-sort')") == "descending"

        choose = "const each = document.querySelector('.controls {}'); each.value = '{}'; each.dispatchEvent(new Event('{}'))"
        tab.evaluate("{" + choose.format("select", "0", "change") + "}")
        assert tab.evaluate(shown) == ["another", "1.000", "digits", "17.00", "4.500", "1.000"]
        tab.evaluate("{" + choose.format("input", "digits FLOAT16", "input") + "}")
        assert tab.evaluate(shown) == ["digits", "4.500"]
        assert tab.evaluate("document.querySelector('.controls output').textContent") == "1 of 7 shown"


def test_the_head_of_a_long_table_stays_in_sight(browser, page):
    with browser.page(page, height=300) as tab:
        tab.evaluate(
            "const body = document.querySelector('#results tbody');"
            "for (let n = 0; n < 40; n++) body.append(body.rows[0].cloneNode(true));"
            "document.querySelector('#results').parentElement.scrollTop = 200"
        )
        gap = (
            "document.querySelector('#results th').getBoundingClientRect().top"
            " - document.querySelector('#results').parentElement.getBoundingClientRect().top"
        )
        assert tab.evaluate("document.querySelector('#results').parentElement.scrollTop") == 200
        assert 0 <= tab.evaluate(gap) <= 2


def test_noise_is_marked_in_the_cell(browser, page):
    with browser.page(page) as tab:
        marked = tab.evaluate(
            "[...document.querySelectorAll('#results .noisy')].map((mark) => mark.closest('tr').cells[2].textContent)"
        )
        assert marked == ["float16"]


def test_the_speed_up_by_tuning_and_the_change_since_the_previous_run_are_in_words(browser, page):
    with browser.page(page) as tab:
        words = tab.evaluate("document.querySelector('.lead').textContent")
        assert "float32 on tuned, 1.000 ms; 17 times as fast as untuned (cpu: 17.00 ms)" in words
        assert "-9.1 %, faster than in the previous run" in words


def test_how_to_run_a_package_can_be_copied(browser, page):
    with browser.page(page) as tab:
        tab.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert tab.evaluate("[...document.querySelectorAll('.copy')].every((button) => button.checkVisibility())")
        tab.evaluate("document.querySelector('#variant-1 .copy').click()")
        tab.wait_for("document.querySelector('#variant-1 .copy').textContent !== 'Copy'")


def test_a_link_to_a_variant_opens_it(browser, page):
    with browser.page(page) as tab:
        assert not tab.evaluate("document.getElementById('variant-2').open")
        tab.evaluate("document.querySelector('#results a[href=\"#variant-2\"]').click()")
        tab.wait_for("document.getElementById('variant-2').open")


def test_a_printed_page_holds_the_details(browser, page):
    with browser.page(page) as tab:
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert tab.evaluate("[...document.querySelectorAll('details')].every((each) => each.open)")
        tab.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not tab.evaluate("[...document.querySelectorAll('details')].every((each) => each.open)")
        tab.call("Emulation.setEmulatedMedia", media="print")
        assert not tab.evaluate("document.querySelector('.controls').checkVisibility()")


def test_names_from_outside_stay_text(browser, run):
    run.add(output=EVIL, soc=EVIL, kernels=[(EVIL, 1.0)], curve=[(1, 0.5)], tuned=1, kernel_name=EVIL, error=1.0)
    files = [run.file(name) for name in ("summary.json", "summary.csv", "index.html")]
    row = unmade("failed", stage=EVIL, cause=EVIL, remedy=EVIL, log=EVIL)
    request = run.request.model_copy(update={"title": EVIL})
    rows = [row.model_copy(update={"model": EVIL, "target": EVIL})]
    write_selection(request, rows[:0], run.file("selection.json"), run.file("best"))
    write_report(request, run.file("selection.json"), rows, *files)
    with browser.page(run.file("index.html")) as tab:
        assert tab.evaluate("document.scripts.length") == 1
        assert tab.evaluate("document.querySelectorAll('img').length") == 0
        assert EVIL in tab.evaluate("document.body.textContent")
        assert tab.complaints() == []
        assert tab.evaluate("document.title") == EVIL
