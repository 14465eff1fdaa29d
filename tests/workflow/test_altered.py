"""Failed, damaged and altered results are never used: the same command rebuilds them, and nothing else."""

import os
import re
from pathlib import Path

import pytest

from tests.workflow.faults import Faults
from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import Project

pytestmark = pytest.mark.long

VARIANT = "results/digits/float32/cpu"
HERMETIC = ("results/*", "results/digits/**/*")


def flip(path: Path) -> None:
    """Flip one bit and keep the times."""
    data, known = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))


def other_digit(path: Path) -> None:
    """Change a figure in a text that remains readable."""
    path.write_text(re.sub(r"\d(?=\D*$)", lambda found: str((int(found[0]) + 1) % 10), path.read_text(), count=1))


def cut(path: Path) -> None:
    """Truncate to the first half."""
    os.truncate(path, path.stat().st_size // 2)


def notes(stderr: str) -> list[str]:
    """The results that are rebuilt because they were altered."""
    return re.findall(r"^note: (\S+) was altered, and is rebuilt$", stderr, flags=re.MULTILINE)


def finished_stages(stderr: str) -> set[str]:
    return set(re.findall(r"^✓ (\w+)", stderr, flags=re.MULTILINE))


@pytest.mark.parametrize("figures", ["latency.json", "numerics.json"])
def test_a_requested_report_shows_no_altered_figure(single: Project, figures: str):
    other_digit(single.directory / VARIANT / figures)
    done = single.run("tvmake", "report")
    assert done.returncode == 0, done.stderr
    (row,) = single.result("results/summary.json")["rows"]
    assert row["verdict"] == "not made"
    assert row["cause"] == f"{VARIANT}/{figures} was altered"
    assert row["remedy"] == "`tvmake make` rebuilds it"
    assert row["p50_ms"] is None
    assert single.make().returncode == 0
    assert {row["verdict"] for row in single.result("results/summary.json")["rows"]} == {"pass"}


def test_a_report_between_a_new_package_and_its_figures_shows_no_figure_of_the_old_one(demo: Project):
    demo.edit("build.opt_level", 2)
    assert demo.make("digits/float32/cpu").returncode == 0
    done = demo.run("tvmake", "report")
    assert done.returncode == 0, done.stderr
    rows = {row["precision"]: row for row in demo.result("results/summary.json")["rows"]}
    assert rows["float32"]["verdict"] == "not made" and rows["float32"]["p50_ms"] is None
    assert rows["float32"]["cause"] == f"{VARIANT}/package.tar was rebuilt since"
    assert rows["float32"]["remedy"] == "`tvmake make` rebuilds it"
    assert rows["float16"]["verdict"] == "pass"


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_validation_that_was_killed_is_done_by_the_same_command_and_its_verdict_is_the_new_one(
    single: Project, tmp_path: Path
):
    single.edit("validation.goals.sqnr_db", 200)
    kill_before(f"{VARIANT}/numerics.json", single, tmp_path)
    done = single.make()
    assert done.returncode == 4, done.stdout + done.stderr
    (row,) = single.result("results/summary.json")["rows"]
    assert row["verdict"] == "fail"


@pytest.mark.soak
def test_a_benchmark_that_was_killed_is_done_by_the_same_command(single: Project, tmp_path: Path):
    single.edit("benchmark.repeat", 4)
    kill_before(f"{VARIANT}/latency.json", single, tmp_path)
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert len(single.result(f"{VARIANT}/latency.json")["report"]["samples_ms"]) == 4


def kill_before(file: str, project: Project, directory: Path) -> None:
    """A run in which the step for a file is killed, as by the system's out-of-memory killer."""
    faults = Faults(project, directory / "faults")
    faults.before(file, "kill worker")
    done = project.make()
    assert done.returncode == 3, done.stdout + done.stderr
    assert faults.pending == set()
    assert not (project.directory / file).exists()
    project.environment.clear()


def test_without_a_package_there_is_no_pass(single: Project, finished_single: Project):
    for package in single.directory.glob("results/digits/*/*/package.tar"):
        package.unlink()
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)
    assert finished_stages(done.stderr) == {"export"}


def test_the_best_package_comes_back_and_nothing_else_is_made_for_it(single: Project):
    for package in single.directory.glob("results/**/package.tar"):
        package.unlink()
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert list(single.directory.glob("results/best/digits/*/package.tar"))
    assert finished_stages(done.stderr) == {"export", "select"}


def test_results_of_a_job_without_a_record_are_rebuilt(single: Project, finished_single: Project):
    package = single.directory / VARIANT / "package.tar"
    package.write_bytes(b"half")
    for record in (single.directory / ".snakemake/tvmake-jobs").iterdir():
        if "package.tar" in record.read_text():
            record.write_bytes(record.read_bytes()[:-1])
    assert single.make().returncode == 0
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)


# --- damage -----------------------------------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    """A pipe without a writer: opening it blocks."""
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    """A link to a device that never ends."""
    path.unlink()
    path.symlink_to("/dev/zero")


def circle(path: Path) -> None:
    """A link to itself."""
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize(("file", "damage"), [(f"{VARIANT}/package.tar", pipe), ("results/summary.json", endless)])
def test_results_that_are_not_files_are_rebuilt(single: Project, finished_single: Project, file: str, damage):
    damage(single.directory / file)
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert not (single.directory / file).is_symlink()
    assert (single.directory / file).is_file()
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)
    assert single.planned_rules() == {}


def test_a_link_that_leads_to_itself_is_refused_with_the_command_that_removes_it(
    single: Project, finished_single: Project
):
    file = f"{VARIANT}/package.tar"
    circle(single.directory / file)
    done = single.make()
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {file}: is a link to itself, but must be a file",
        f"  remove it: rm {file}",
    ]
    assert (single.directory / file).is_symlink()
    assert single.run("rm", file).returncode == 0
    assert single.make().returncode == 0
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)


@pytest.mark.parametrize("command", ["check", "make"])
def test_a_directory_instead_of_a_result_is_reported_and_kept(single: Project, command: str):
    entry = single.directory / VARIANT / "mod.so"
    entry.unlink()
    entry.mkdir()
    (entry / "mine.txt").touch()
    done = single.run("tvmake", command)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {VARIANT}/mod.so: is a directory, but must be a file",
        "  move it elsewhere",
    ]
    assert (entry / "mine.txt").exists()
    (entry / "mine.txt").unlink()
    assert single.make().returncode == 0
    assert entry.is_file()


@pytest.mark.parametrize("command", ["check", "make"])
def test_a_file_instead_of_a_directory_is_reported(single: Project, command: str):
    entry = single.directory / "results" / "digits"
    entry.rename(single.directory / "elsewhere")
    entry.touch()
    done = single.run("tvmake", command)
    assert done.returncode == 1
    assert done.stderr.startswith("error: results/digits: is not a directory, but results or logs go into it\n")


DAMAGES = [
    ("results/digits/model.params", "import", cut),
    (f"{VARIANT}/mod.so", "build", flip),
    (f"{VARIANT}/package.tar", "export", cut),
    (f"{VARIANT}/package.provenance.json", "attest", flip),
    ("results/index.html", "report", flip),
]
"""A result of each kind, the stage that makes it, and its damage."""


def test_damaged_results_are_rebuilt_and_nothing_is_built_on_them(single: Project, finished_single: Project):
    for file, _, damage in DAMAGES:
        damage(single.directory / file)
    stages = {stage for _, stage, _ in DAMAGES}
    assert stages <= {rule.removesuffix("_model") for rule in single.planned_rules()}
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert set(notes(done.stderr)) == {file for file, _, _ in DAMAGES}
    assert finished_stages(done.stderr) == stages
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)
    assert single.planned_rules() == {}
    assert single.run("tvmake", "verify", f"{VARIANT}/package.tar", "--from", "digits.onnx").returncode == 0


@pytest.mark.soak
@pytest.mark.parametrize(
    ("file", "stage", "damage"),
    [
        *DAMAGES,
        ("results/digits/float32/module.json", "transform", flip),
        (f"{VARIANT}/mod.so", "build", cut),
        (f"{VARIANT}/package.tar", "export", flip),
        (f"{VARIANT}/package.cdx.json", "attest", cut),
    ],
)
def test_one_damaged_result_reruns_only_its_stage(
    single: Project, finished_single: Project, file: str, stage: str, damage
):
    damage(single.directory / file)
    assert {stage, f"{stage}_model"} & single.planned_rules().keys()
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert notes(done.stderr) == [file]
    assert finished_stages(done.stderr) == {stage}
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)
    assert single.planned_rules() == {}


def test_a_run_for_one_file_makes_again_what_that_needs_and_leaves_the_rest_for_the_next_whole_one(demo: Project):
    other = "results/digits/float16/cpu"
    for name in (f"{VARIANT}/mod.so", f"{other}/package.tar"):
        flip(demo.directory / name)
    package = f"{VARIANT}/package.tar"
    assert demo.planned_rules(package).keys() <= {"build", "export"}
    done = demo.make(package)
    assert done.returncode == 0, done.stderr
    assert notes(done.stderr) == [f"{VARIANT}/mod.so"]
    assert finished_stages(done.stderr) == {"build"}
    done = demo.make()
    assert notes(done.stderr) == [f"{other}/package.tar"]
    assert finished_stages(done.stderr) == {"export"}


def test_another_figure_in_the_list_of_kernels_is_seen_before_anything_is_tuned_for_it(
    tuned: Project, finished_tuned: Project
):
    other_digit(tuned.directory / "results/digits/float32/tuned/tasks.json")
    done = tuned.make()
    assert done.returncode == 0, done.stderr
    assert finished_stages(done.stderr) == {"extract"}
    assert tuned.hermetic(*HERMETIC) == finished_tuned.hermetic(*HERMETIC)


@pytest.mark.parametrize(
    "damage", [flip, *(pytest.param(damage, marks=pytest.mark.soak) for damage in (cut, other_digit))]
)
def test_a_damaged_budget_is_planned_again(tuned: Project, finished_tuned: Project, damage):
    damage(tuned.directory / "results/tuning/tuned/round1/budget.json")
    done = tuned.make()
    assert done.returncode == 0, done.stderr
    assert tuned.hermetic(*HERMETIC) == finished_tuned.hermetic(*HERMETIC)
    assert tuned.planned_rules() == {}


@pytest.mark.soak
def test_if_one_result_cannot_be_rebuilt_the_others_are(single: Project):
    single.write_config({**single.config, "precisions": ["float32"]})
    single.edit("models.second", {**single.config["models"]["digits"], "source": "second.onnx"})
    (single.directory / "second.onnx").write_bytes((single.directory / "digits.onnx").read_bytes())
    assert single.make().returncode == 0
    (single.directory / "second.onnx").write_bytes(b"no longer a model")
    flip(single.directory / "results/second/model.params")
    flip(single.directory / VARIANT / "mod.so")
    done = single.make()
    assert done.returncode == 1
    assert "second.onnx: not an ONNX model" in done.stderr
    assert "build digits float32 cpu" in done.stderr
    assert not (single.directory / "results/second/model.params").exists()


def test_snakemake_itself_builds_on_no_damaged_result(single: Project, finished_single: Project):
    params = single.directory / "results/digits/float32/module.params"
    flip(params)
    (single.directory / VARIANT / "mod.so").unlink()
    done = single.run(*snakemake("--cores", "2", f"{VARIANT}/mod.so"))
    assert done.returncode == 1
    assert "results/digits/float32/module.params: altered" in done.stderr + done.stdout
    params.unlink()
    assert single.run(*snakemake("--cores", "2", f"{VARIANT}/mod.so")).returncode == 0
    assert single.hermetic(*HERMETIC) == finished_single.hermetic(*HERMETIC)
