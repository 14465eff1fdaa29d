"""The pages as a browser shows them: layout, console, accessibility, and what its controls do."""

from pathlib import Path

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


@pytest.mark.parametrize("width", [400, 1000, 1600])
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
            "Latency",
            "Latency against accuracy and size",
            "Variants",
            "Built but not run",
            "Failed and not built",
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
        assert tab.evaluate("document.querySelector('.controls output').textContent") == "1 of 4 shown"


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
