"""Every repair is described once, and its modules name it."""

import re
import subprocess
from pathlib import Path

from tests.workflow.project import ROOT
from tvmake.repairs.registry import ALL, REPAIRS, modules_by_repair

MODULES = modules_by_repair()

ALLOWED = (
    "CHANGELOG.md",
    "native/tvm_sources/",
    "docs/reference/repairs.md",
    "tests/repairs/",
    "upstream/",
    "workflow/tvmake/repairs/",
)
"""Files that may name the release of TVM: the repairs, their page and scripts, and TVM's own code."""

RELEASE = re.compile(r"TVM 0\.27(?!\.0\.post1)")
"""The full version is that of a measurement."""

KEBAB_CASE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def test_names_are_unique_and_in_kebab_case():
    assert len(REPAIRS) == len(ALL)
    assert all(KEBAB_CASE.fullmatch(name) for name in REPAIRS)


def test_a_module_names_each_repair_and_no_other():
    assert MODULES.keys() == REPAIRS.keys()


def test_each_repair_has_a_reproducer_or_a_reason_and_each_script_a_repair():
    probes = {repair.probe for repair in REPAIRS.values() if repair.probe is not None}
    scripts = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "upstream").glob("*/*.py")
        if "still_needed" in path.read_text(encoding="utf-8")
    }
    assert probes == scripts


def test_no_other_file_names_the_release_of_tvm():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    naming = [
        file
        for file in listed
        if not file.startswith(ALLOWED) and RELEASE.search((ROOT / file).read_bytes().decode(errors="replace"))
    ]
    assert naming == []


def test_descriptions_of_the_worst_defects_belong_to_repairs():
    described = {path.stem.replace("_", "-") for path in Path(ROOT / "upstream").glob("*/*.md")}
    assert len(described) >= 10
    assert described <= REPAIRS.keys()
