import io

import pytest
from rich.console import Console

from tests.report.conftest import gather
from tvmake.config.validation import Goals
from tvmake.report.terminal import exit_code, print_summary


def printed(run, **console):
    text = io.StringIO()
    print_summary(gather(run.request), Console(file=text, **console))
    return text.getvalue()


def test_plain_text_has_whole_names_aligned_columns_and_no_escape_codes(run):
    long = "a-model-name-" + "x" * 60
    run.add(model=long)
    run.add(target="phone", device=None)
    text = printed(run, width=40)
    header, first, second = text.splitlines()[:3]
    assert "\x1b" not in text
    assert first.startswith(long)
    assert header.index("target") == first.index("cpu") == second.index("phone")
    assert header.index("verdict") == first.index("pass") == second.index("not run")


def test_equal_rows_print_equally_whatever_the_width(run):
    run.add()
    assert printed(run, width=20) == printed(run, width=200)


def test_accuracy_is_top1_or_the_sqnr_where_there_are_no_labels(run):
    run.add(error=0.01, goals=Goals())
    run.add(precision="float16", error=0.01, goals=Goals(), labelled=False)
    _, labelled, unlabelled = printed(run).splitlines()[:3]
    assert "100.00 %" in labelled
    assert " dB" in unlabelled


def test_missed_goals_and_warnings_follow_the_table_one_line_each(run):
    run.add(error=0.5, goals=Goals(sqnr_db=40.0), samples_ms=[1.0, 2.0, 1.0, 2.0])
    lines = printed(run).splitlines()[2:]
    assert lines[0].startswith("digits/float32/cpu: missed sqnr_db of logits: ")
    assert any(line.startswith("warning: digits/float32/cpu: latency: noisy") for line in lines[1:])


def test_a_terminal_gets_colour_and_names_are_never_read_as_markup(run):
    run.add(model="[b]m[/b]", output="[red]y[/red]", error=0.5)
    text = printed(run, force_terminal=True, color_system="standard", width=200)
    assert "\x1b[1;31mfail" in text
    assert "[b]m[/b] " in text
    assert "[red]y[/red]" in text


@pytest.mark.parametrize(("errors", "code"), [([0.0, 0.0], 0), ([0.0, 0.5], 4)])
def test_a_run_exits_with_4_when_any_variant_misses_its_goals(run, errors, code):
    for number, error in enumerate(errors):
        run.add(model=f"model{number}", error=error)
    run.add(target="phone", device=None)
    assert exit_code(gather(run.request)) == code


def test_a_narrow_terminal_gets_whole_words_and_says_what_it_does_not_show(run):
    run.add(model="mobilenet_v2", precision="float16_acc32")
    run.add(model="digits", target="tuned")
    wide = printed(run, force_terminal=True, color_system=None, width=200)
    narrow = printed(run, force_terminal=True, color_system=None, width=70)
    assert "p90 ms" in wide
    assert "a wider terminal" not in wide
    header, first, second, *rest = narrow.splitlines()
    assert all(len(line) <= 70 for line in (header, first, second))
    assert first.split()[:3] == ["mobilenet_v2", "cpu", "float16_acc32"]
    assert first.split()[-1] == second.split()[-1] == "pass"
    assert any(line.startswith("a wider terminal has p90 ms") for line in rest)
