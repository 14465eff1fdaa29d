"""``tvmake step``: one command per stage, generated from its descriptor for the rules."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tests.patience import HANG_S
from tvmake.cli.step.command import app
from tvmake.cli.step.work import title, work_of
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.tuning import BudgetRequest
from tvmake.stages.descriptor import Stage
from tvmake.stages.registry import stages
from tvmake.storage.resources import snakefile

GROUP = get_command(app)
RULES = "".join(file.read_text() for file in sorted((snakefile().parent / "rules").glob("*.smk")))


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def options(stage: str) -> dict[str, bool]:
    """A command's options, and whether each is required."""
    return {
        parameter.opts[0]: parameter.required
        for parameter in GROUP.get_command(None, stage).params
        if parameter.param_type_name == "option"
    }


@pytest.mark.parametrize("stage", stages())
def test_the_rules_pass_every_required_option_and_no_unknown_one(stage: str):
    shell = re.search(rf"tvmake step {stage} (.*?)> \{{log", RULES, re.DOTALL)
    assert shell
    given = set(re.findall(r"(--[a-z_-]+)[ =]", shell[1]))
    known = options(stage)
    assert given <= known.keys()
    assert {name for name, required in known.items() if required} <= given


@pytest.mark.parametrize("described", stages().values(), ids=lambda described: described.name)
def test_the_rules_give_what_a_job_may_lack_as_parameters(described: Stage):
    shell = re.search(rf"tvmake step {described.name} (.*?)> \{{log", RULES, re.DOTALL)
    assert shell
    given = set(re.findall(r"\{params\.(\w+)", shell[1])) - {"options"}
    optional = {entry.parameter for entry in described.inputs if entry.parameter and entry.is_optional}
    lock = {"frozen"} if described.takes_lock else set()
    assert given == optional | lock | {value.name for value in described.parameters}
    assert {f"--{name.replace('_', '-')}" for name in optional | lock} <= options(described.name).keys()


def test_the_commands_are_the_stages_in_the_order_that_data_flows():
    assert GROUP.list_commands(None) == list(stages())
    assert all(stage in run("--help").stdout for stage in stages())


def test_an_unknown_stage_is_a_mistake_of_usage():
    done = run("bild")
    assert done.exit_code == 2 and "No such command 'bild'" in done.output


def test_options_that_are_not_a_request_are_refused(tmp_path: Path):
    command = [sys.executable, "-c", "from tvmake.cli import main; main()", "step", "deploy", "a.tar", "--receipt", "r"]
    for text, problem in (
        ("{", "Invalid JSON"),
        ('{"devise_name": "x"}', "devise_name: Extra inputs are not permitted"),
    ):
        done = subprocess.run(
            [*command, "--options", text], capture_output=True, text=True, cwd=tmp_path, timeout=HANG_S, check=False
        )
        assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


def test_one_stages_command_loads_no_other_stage():
    program = (
        "import sys; from typer.main import get_command; from tvmake.cli.step.command import app;"
        "get_command(app).get_command(None, 'export');"
        "print(sorted(name for name in sys.modules if name.startswith('tvmake.stages.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    loaded = ["descriptor", "package", "package.contents", "package.export", "registry"]
    assert done.stdout.strip() == str([f"tvmake.stages.{name}" for name in loaded])


def test_runs_are_called_after_what_they_work_on():
    build = BuildRequest(model="digits", precision="float32", target_name="cpu")
    budget = BudgetRequest(target_name="cpu", number=2, rounds=2, variants={})
    assert title(stages()["build"], {"request": build}) == "build digits/float32/cpu"
    assert title(stages()["budget"], {"request": budget}) == "budget cpu round 2"
    assert title(stages()["transform"], {"imported": Path("a/model.json")}) == "transform a/model.json"
    assert title(stages()["report"], {}) == "report"


def test_the_cache_sees_files_by_what_they_are_to_the_stage():
    given = {name: Path(name) for name in ("module", "params", "signature", "lib", "manifest", "packing", "sources")}
    request = BuildRequest(model="digits", precision="float32", target_name="cpu")
    work = work_of(stages()["build"], {**given, "request": request, "best": None})
    assert list(work.inputs) == ["module", "params", "signature"]
    assert list(work.outputs) == ["lib", "manifest", "packing", "sources"]
    assert list(work_of(stages()["build"], {**given, "request": request, "best": Path("b")}).inputs)[-1] == "best"


def test_a_process_that_its_work_ends_is_named():
    code = "import os; from tvmake.cli.step.process import run_guarded; exit(run_guarded('import net', lambda: os._exit(9)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 1
    assert "error: import net: its process exited with code 9\n  look for os._exit()" in done.stderr


@pytest.mark.parametrize("ending", ["SystemExit(0)", "SystemExit('bye')", "KeyboardInterrupt"])
def test_a_models_code_that_exits_the_program_fails(ending: str, tmp_path: Path):
    (tmp_path / "theirs.py").write_text(f"def mine():\n    raise {ending}\n")
    code = "from theirs import mine; from tvmake.cli.step.process import run_guarded; exit(run_guarded('import net', mine))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert done.returncode == 1
    name = ending.partition("(")[0]
    assert f"error: import net: the model's code raises {name} (theirs.py:2)\n  end it with `return`" in done.stderr


def test_a_thread_that_cannot_start_is_not_a_defect():
    code = (
        "import threading; from tvmake.cli.step.process import run_guarded; threading.stack_size(1 << 46);"
        "exit(run_guarded('tune a kernel', lambda: threading.Thread(target=print).start()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "error: tune a kernel: too many processes\n  end some, or raise the limit" in done.stderr


def test_a_file_deleted_during_a_stage_is_not_a_defect(tmp_path: Path):
    code = "from tvmake.cli.step.process import run_guarded; exit(run_guarded('export net', lambda: open('results/mod.so')))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert done.returncode == 3
    assert "error: results/mod.so: was deleted during this run" in done.stderr
    assert "run again when nothing else changes these directories" in done.stderr


CALLS = {
    "metric theirs:mine": "from tvmake.config.validation import Metric\n"
    "from tvmake.validate.metrics import MetricSamples, measure\n"
    "given = MetricSamples(lambda: iter(()), 0)\n"
    "work = lambda: measure({'f': Metric(use='theirs:mine')}, given, given)\n",
    "pass theirs:mine": "from tvmake.transform.options import UserPass\n"
    "from tvmake.transform.user_passes import load_pass\n"
    "work = lambda: load_pass(UserPass(use='theirs:mine', at='before_legalize'))\n",
    "theirs:mine": "from tvmake.frontend.torch.factory import export\n"
    "from tvmake.frontend.options import ImportOptions\n"
    "work = lambda: export('theirs:mine', ImportOptions(source='theirs:mine', trusted=True))\n",
}
"""Calls of a user's function, by their subject in messages."""


@pytest.mark.parametrize(
    ("called", "ending", "line"),
    [
        ("metric theirs:mine", "os._exit(0)", "its process exited with code 0"),
        ("metric theirs:mine", "os._exit(3)", "its process exited with code 3"),
        ("metric theirs:mine", "ctypes.string_at(0)", "it crashed its process with SIGSEGV"),
        ("pass theirs:mine", "os._exit(0)", "its process exited with code 0"),
        ("pass theirs:mine", "ctypes.string_at(0)", "it crashed its process with SIGSEGV"),
        ("theirs:mine", "os._exit(0)", "its process exited with code 0"),
        ("theirs:mine", "ctypes.string_at(0)", "it crashed its process with SIGSEGV"),
    ],
)
def test_a_users_function_that_ends_the_process_is_named_with_its_line(
    called: str, ending: str, line: str, tmp_path: Path
):
    (tmp_path / "theirs.py").write_text(f"import ctypes, os\ndef mine(*_):\n    {ending}\n")
    code = f"from tvmake.cli.step.process import run_guarded\n{CALLS[called]}exit(run_guarded('a stage', work))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert done.returncode == 1
    assert f"error: {called} (theirs.py:2): {line}\n" in done.stderr
