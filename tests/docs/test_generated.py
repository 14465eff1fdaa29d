"""Pages, figures and tables that follow from the code are as the code is."""

import importlib.util
import re
from types import ModuleType

import pytest

from tests.workflow.project import ROOT


def script(name: str) -> ModuleType:
    """A script of docs/scripts."""
    specification = importlib.util.spec_from_file_location(name, ROOT / f"docs/scripts/{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_figure_shows_the_package_as_it_is():
    architecture = script("architecture")
    is_current = architecture.FIGURE.read_text(encoding="utf-8") == architecture.draw()
    assert is_current, "run: python docs/scripts/architecture.py"


@pytest.mark.parametrize("name", ["commands", "stages", "python", "repairs"])
def test_a_generated_page_is_what_the_code_says(name: str):
    generated = script(name)
    assert generated.PAGE.read_text(encoding="utf-8") == generated.page(), f"run: python docs/scripts/{name}.py"


def test_the_contributors_page_lists_the_rooms_floor_by_floor():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page[page.index("| room of") :].partition("\n\n")[0].splitlines()[2:]
    assert [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table] == script("architecture").floors()
