"""The tests that `make test` selects."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import selection
from tests.selection import Part, Reach, all_test_files, concerned, core, costs, within_budget

VALIDATE, TARGET = "tests/validate/test_numerics.py", "tests/config/test_target.py"
WORKFLOW = "tests/workflow/test_reruns.py"


def files(parts: dict[Part, int] | set[Part]) -> set[str]:
    return {part.file for part in parts}


def test_a_module_concerns_tests_that_import_it_directly_or_over_others_nearest_first():
    reach = Reach(VALIDATE)
    assert reach.distance(VALIDATE) == 0
    assert reach.distance("workflow/tvmake/validate/numerics.py") == 1
    assert Reach("tests/validate/test_samples.py").distance("workflow/tvmake/errors.py") == 2
    assert Reach("tests/plan/test_plan.py").distance("workflow/tvmake/options.py") == 3
    assert reach.distance("workflow/tvmake/engine/noop.py") is None


def test_helpers_of_tests_and_conftests_concern_the_files_that_import_them():
    assert Reach(WORKFLOW).distance("tests/workflow/project.py") == 1
    assert Reach(WORKFLOW).distance("tests/workflow/conftest.py") == 1
    assert Reach(TARGET).distance("tests/workflow/project.py") is None


@pytest.mark.parametrize(
    "changed", ["workflow/tvmake/validate/numerics.py", "Snakefile", "rules/build.smk", "profiles/slurm/config.yaml"]
)
def test_tests_that_run_commands_are_concerned_by_the_whole_workflow(changed: str):
    assert Reach(WORKFLOW).distance(changed) is not None


def test_a_test_file_may_say_which_modules_its_commands_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selection, "_constant", lambda *_: ("tvmake.validate.numerics",))
    reach = Reach(WORKFLOW)
    assert reach.distance("workflow/tvmake/validate/numerics.py") == 3
    assert not reach.runs_everything
    assert reach.distance("workflow/tvmake/doctor/report.py") is None


def test_a_file_that_is_not_a_module_concerns_tests_that_name_it():
    reach = Reach("tests/resources/test_digits.py")
    assert reach.distance("resources/digits.onnx") is not None
    assert reach.distance("benchmarks/scale.py") is None


def test_what_all_depend_on_concerns_all():
    assert files(concerned([VALIDATE, TARGET], ["pyproject.toml"])) == {VALIDATE, TARGET}


def test_native_sources_concern_what_uses_the_native_programs():
    assert Reach("tests/native/test_server.py").distance("native/server/main.cc") == 1
    assert Reach(TARGET).distance("native/server/main.cc") is None


def test_long_tests_wait_behind_those_that_the_change_concerns_as_nearly():
    both = "tests/native/test_runner.py"
    ranks = concerned([both], ["native/runner/main.cc"])
    assert ranks[Part(both, False)] < ranks[Part(both, True)]
    assert concerned([both], [both]) == {Part(both, False): 0, Part(both, True): 0}
    assert concerned([VALIDATE], [VALIDATE]) == {Part(VALIDATE, False): 0}
    assert concerned(["tests/networks/test_every_transport.py"], ["pyproject.toml"]).keys() == {
        Part("tests/networks/test_every_transport.py", True)
    }


def test_the_nearest_come_first_and_the_cheapest_among_equals_until_the_time_is_used():
    ranks = {Part("far", False): 3, Part("near", False): 1, Part("dear", False): 1, Part("tiny", False): 3}
    known = {"far": (40.0, 0.0), "near": (40.0, 0.0), "dear": (70.0, 0.0), "tiny": (5.0, 0.0)}
    assert files(within_budget(ranks, known, 100.0)) == {"near", "far", "tiny"}
    assert files(within_budget(ranks | {Part("dear", False): 0}, known, 100.0)) == {"dear", "tiny"}


def test_costs_are_those_of_test_files_that_are_there():
    """`--write-costs` removes other files and adds those that ran."""
    assert costs().keys() <= {*all_test_files()}


def test_the_core_set_has_all_rooms():
    chosen = within_budget(core(all_test_files(), costs()), costs())
    rooms = {path.name for path in (selection.ROOT / "workflow/tvmake").iterdir() if (path / "__init__.py").is_file()}
    assert {Path(file).parts[1] for file in files(chosen)} >= rooms & {Path(file).parts[1] for file in all_test_files()}


def test_what_changed_is_the_branch_and_the_working_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    def write(*names: str) -> None:
        for name in names:
            (tmp_path / name).write_text(name)

    monkeypatch.setattr(selection, "ROOT", tmp_path)
    assert selection.changed_files() == []
    git("init", "--quiet", "--initial-branch", "main")
    write("kept", "edited", "committed")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    assert selection.changed_files() == []
    git("checkout", "--quiet", "-b", "branch")
    (tmp_path / "committed").write_text("changed")
    git("commit", "--quiet", "-a", "-m", "second")
    (tmp_path / "edited").write_text("changed")
    write("new")
    assert selection.changed_files() == ["committed", "edited", "new"]


SUITE = {
    "tests/__init__.py": "",
    "tests/test_short.py": "def test_it(): pass\n",
    "tests/test_both.py": "import pytest\ndef test_it(): pass\n@pytest.mark.long\ndef test_long(): pass\n",
}


def test_a_quick_run_says_what_it_left_out_and_named_tests_run_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).resolve().parents[1]
    names = ("selection.py", "requirements.py", "conftest.py")
    suite = SUITE | {f"tests/{name}": (root / "tests" / name).read_text() for name in names}
    suite["tests/costs.json"] = "{}"
    suite["pytest.ini"] = "[pytest]\ntestpaths = tests\npythonpath = .\nmarkers = long: long\n"
    for name, text in suite.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "2 passed" in run("--quick", "-n", "2")
    out = run("--quick")
    assert "2 passed, 1 deselected" in out
    assert "ran the core set" in out and "`make test-all` runs everything" in out
    out = run("--quick", "--changed=tests/test_both.py")
    assert "2 passed" in out and "ran what the change concerns: 1 of 2 test files" in out
    assert "2 passed" in run("--quick", "tests/test_both.py")
    assert "3 passed" in run("--write-costs")
    assert [len(cost) for cost in json.loads((tmp_path / "tests/costs.json").read_text()).values()] == [2, 2]
