"""The page on dependencies, against pyproject.toml and the locks."""

import re
import tomllib

import pytest

from tests.workflow.project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")

ALWAYS = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
REQUIREMENTS = [*ALWAYS, *(entry for group in (EXTRAS | GROUPS).values() for entry in group)]


def name(requirement: str) -> str:
    return re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0]


@pytest.mark.parametrize("requirement", sorted(set(REQUIREMENTS)))
def test_every_dependency_has_a_line_that_says_what_it_is_for(requirement: str):
    assert f"`{name(requirement)}`" in PAGE


@pytest.mark.parametrize("requirement", [entry for entry in ALWAYS + EXTRAS["torch"] if "==" in entry or ",<" in entry])
def test_a_range_with_an_end_is_named_with_it(requirement: str):
    named = name(requirement)
    shown = re.findall(rf"`{named}`,? ([=<>][^ |]*)", PAGE)
    assert shown in ([], [requirement.removeprefix(named)])


@pytest.mark.parametrize(
    "lock, groups", [("test", ["build", "test", "lint", "docs"]), ("requirements", ["build"]), ("image", ["cuda"])]
)
def test_a_lock_holds_what_is_asked_for(lock: str, groups: list[str]):
    wanted = [*ALWAYS, *EXTRAS["torch"], *EXTRAS["tflite"], *(entry for group in groups for entry in GROUPS[group])]
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / f"envs/{lock}.lock").read_text(), flags=re.MULTILINE))
    assert {name(entry).lower() for entry in wanted} <= locked
