"""``tvmake help PAGE``: the pages that messages name."""

import re

import pytest

from tests.docs.test_links import headings
from tvmake.cli import run
from tvmake.cli.pages import sections_of
from tvmake.errors import MOST_ERRORS, ErrorList, InputError, name_help, print_error
from tvmake.storage.resources import documentation

PAGES = sorted(documentation().rglob("*.md"))


@pytest.mark.parametrize("name", ["docs/guides/slurm.md", "guides/slurm.md", "slurm"])
def test_a_page_is_printed_by_the_name_in_a_message_in_a_link_or_its_own(name: str, capsys: pytest.CaptureFixture[str]):
    assert run(["help", name]) == 0
    assert capsys.readouterr().out.rstrip() == (documentation() / "guides" / "slurm.md").read_text().rstrip()


def test_a_section_is_printed_with_its_subsections_only(capsys: pytest.CaptureFixture[str]):
    assert run(["help", "docs/guides/config.md#goals"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("## Goals\n")
    assert re.findall(r"^##? .*$", printed, re.MULTILINE) == ["## Goals"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_sections_of_a_page_are_those_that_links_name(page):
    assert sections_of(page.read_text(encoding="utf-8")).keys() == headings(page)


def test_a_name_that_a_command_has_too_is_the_command(capsys: pytest.CaptureFixture[str]):
    assert run(["help", "verify"]) == 0
    assert capsys.readouterr().out.startswith("Usage: tvmake verify")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "guides/confg.md",
            "tvmake help guides/confg.md: no such page\n  did you mean `tvmake help guides/config.md`?",
        ),
        ("../pyproject.md", "tvmake help ../pyproject.md: no such page\n"),
        ("slurm#pods", "tvmake help slurm#pods: the page has no section 'pods'\n  it has "),
    ],
)
def test_a_page_that_does_not_exist_is_refused(name: str, error: str, capsys: pytest.CaptureFixture[str]):
    assert run(["help", name]) == 2
    assert f"error: {error}" in capsys.readouterr().err


def test_an_error_that_names_a_page_says_how_to_read_it(capsys: pytest.CaptureFixture[str]):
    print_error(InputError("net.onnx", "it is empty", "see docs/guides/config.md#goals, or ask"))
    named = "see `tvmake help docs/guides/config.md#goals`, or ask"
    assert capsys.readouterr().err == f"error: net.onnx: it is empty\n  {named}\n"
    assert name_help(named) == named
    assert name_help("results/docs/guides/config.md") == "results/docs/guides/config.md"


def test_of_many_errors_the_first_are_printed(capsys: pytest.CaptureFixture[str]):
    print_error(ErrorList([InputError(f"model{number}.onnx", "is empty") for number in range(MOST_ERRORS + 3)]))
    printed = capsys.readouterr().err.splitlines()
    assert printed[0] == "error: model0.onnx: is empty"
    assert printed[MOST_ERRORS - 1 :] == [f"error: model{MOST_ERRORS - 1}.onnx: is empty", "error: and 3 more errors"]
