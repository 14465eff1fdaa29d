"""Rules take their fields from the stages' descriptors, in one order."""

import re
from pathlib import Path

import pytest

from tvmake.engine.snakefile import rule_files
from tvmake.stages.registry import rules, stages

FIELDS = [
    "input",
    "output",
    "log",
    "group",
    "localrule",
    "conda",
    "container",
    "threads",
    "resources",
    "params",
    "message",
    "shell",
]
"""The order of fields in a rule file."""

MAPPINGS = ("input", "output", "log", "resources", "params")


@pytest.mark.parametrize("file", rule_files(), ids=lambda file: file.stem)
def test_a_rule_says_what_flows_and_takes_its_fields_from_its_stage(file: Path):
    text = file.read_text()
    (header, name) = re.match(r"(rule|checkpoint) (\w+):\n", text).groups()
    stage = rules()[name].stage
    assert file.stem == stage.name and (header == "checkpoint") == (stage.name == "budget")
    docstring = re.match(r'.*\n    """[A-Z].*[.]\n    INPUTS   \S(?:.*\n)+    OUTPUTS  \S(?:.*\n)+?    """\n', text)
    assert docstring
    rule = text.partition("\n\n\n")[0]
    fields = re.findall(r"^    (\w+):", rule[docstring.end() :], re.MULTILINE)
    assert fields == [field for field in FIELDS if field in fields]
    assert ("threads" in fields) == stage.is_timing
    for field in MAPPINGS:
        call = re.search(rf'^    {field}:\n        \*\*plan\.(\w+)\(\s*"(\w+)"', text, re.MULTILINE)
        assert call and call.groups() == (field if field in ("resources", "params") else f"{field}s", stage.name)


def test_each_stage_has_a_rule_file():
    assert sorted(file.stem for file in rule_files()) == sorted(stages())


@pytest.mark.parametrize("described", stages().values(), ids=lambda described: described.name)
def test_no_two_inputs_of_a_stage_share_a_name(described):
    names = [entry.name for entry in described.inputs if not entry.is_source]
    assert len(set(names)) == len(names) and "sources" not in names
