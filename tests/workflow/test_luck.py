"""Results do not depend on clocks, delayed visibility of files, concurrent runs or changing budgets."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import HANG_S, wait_until
from tests.requirements import need
from tests.workflow.faults import Faults, started
from tests.workflow.project import TRIALS, Project, changed_weights, new_project
from tvmake.records.preference import latency_ms, latest_comparison, sort_by_preference
from tvmake.records.store import RecordStore

pytestmark = pytest.mark.long

REFERENCE = "results/digits/reference.npz"
TRANSFORMED = "results/digits/float32/module.json"
TUNED = "results/digits/float32/tuned"
LATE = Path(__file__).with_name("late_names.c")


def move_times(project: Project, minutes: float, *patterns: str) -> None:
    """Set other times for matching files."""
    for pattern in patterns:
        for path in project.directory.glob(pattern):
            if path.is_file():
                known = path.stat()
                os.utime(path, (known.st_atime + 60 * minutes, known.st_mtime + 60 * minutes))


def change_weights(project: Project) -> None:
    """Another network with the same kernels; its file keeps its times, as with ``cp -p``."""
    file = project.directory / "digits.onnx"
    known = file.stat()
    changed_weights(file, file)
    os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))


def succeeded(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The same, if it did."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "minutes"),
    [
        ("digits*", 30),
        ("results/**/mod*", 30),
        pytest.param("results/**/*", -30, marks=pytest.mark.soak),
        pytest.param("results/**/*", 30, marks=pytest.mark.soak),
        pytest.param(".snakemake/**/*", -30, marks=pytest.mark.soak),
    ],
)
def test_other_times_of_the_same_content_execute_nothing(demo: Project, what: str, minutes: float):
    move_times(demo, minutes, what)
    assert demo.planned_rules() == {}


@pytest.mark.soak
def test_a_change_is_seen_though_the_source_is_old_and_the_results_are_from_the_future(demo: Project, tmp_path: Path):
    fresh = new_project(tmp_path / "fresh" / "project")
    for project in (demo, fresh):
        project.write_config({**project.config, "precisions": ["float32"]})
        change_weights(project)
    move_times(demo, -60, "digits.onnx")
    move_times(demo, 60, "results/**/*")
    succeeded(demo.make())
    assert demo.planned_rules() == {}
    succeeded(fresh.make())
    patterns = ("results/digits/*", "results/digits/float32/**/*")
    assert demo.hermetic(*patterns) == fresh.hermetic(*patterns)


def test_a_source_from_the_future_is_imported_once(single: Project):
    change_weights(single)
    move_times(single, 60, "digits.onnx")
    succeeded(single.make(TRANSFORMED))
    assert single.planned_rules(TRANSFORMED) == {}


def test_a_model_that_is_edited_while_it_is_imported_is_imported_again(single: Project, tmp_path: Path):
    imported = "results/digits/source.json"
    change_weights(single)
    faults = Faults(single, tmp_path / "faults")
    faults.before("results/digits/model.json", "pause")
    with started(single, "tvmake", "make", imported) as run:
        faults.wait("results/digits/model.json")
        change_weights(single)
        faults.release("results/digits/model.json")
        _, err = run.communicate(timeout=HANG_S)
    faults.end()
    assert run.returncode == 0, err
    assert single.planned_rules(imported) == {"import": 1}


def test_the_times_of_sources_are_not_changed(single: Project):
    move_times(single, 60, "digits*")
    before = {path: path.stat().st_mtime_ns for path in single.directory.glob("digits*")}
    single.edit("models.digits.dataset.limit", 8)
    succeeded(single.make(REFERENCE))
    assert {path: path.stat().st_mtime_ns for path in single.directory.glob("digits*")} == before
    assert single.planned_rules(REFERENCE) == {}


# --- budgets that shrink and grow -------------------------------------------------------------------------------------


def used(project: Project) -> dict[str, float | None]:
    """The latency of the record that each kernel of the tuned variant is built with."""
    return {kernel["workload"]: kernel["latency_ms"] for kernel in project.result(f"{TUNED}/best.json")["kernels"]}


def fastest(project: Project) -> dict[str, float]:
    """The latency of the record of each kernel that a package takes of all in the store, in ms."""
    store = RecordStore(project.directory.parent / "home" / "records")
    (context,) = store.contexts()
    found = {}
    for workload in store.workloads(context):
        comparison = latest_comparison(store.comparisons(context, workload))
        found[workload] = latency_ms(sort_by_preference(store.load(context, workload), comparison)[0], comparison)
    return found


@pytest.mark.soak
def test_a_budget_that_shrinks_and_grows_again_measures_nothing_twice_and_ends_with_the_best(tuned: Project):
    before = tuned.hermetic("results/digits/float32/tuned/**/*")
    for trials in (TRIALS - 2, TRIALS):
        tuned.edit("targets.tuned.tuning.trials_per_kernel", trials)
        succeeded(tuned.make())
        assert tuned.planned_rules() == {}
        assert {kernel["trials"] for kernel in tuned.result(f"{TUNED}/best.json")["kernels"] if kernel["record"]} == {
            TRIALS
        }
    assert tuned.hermetic("results/digits/float32/tuned/**/*") == before


def test_kernels_that_a_pass_no_longer_has_are_ignored(tuned: Project):
    # A second model with the same kernels is added and removed; an invalid receipt that no round names is left.
    config = tuned.config
    config["models"]["again"] = config["models"]["digits"]
    tuned.write_config(config)
    succeeded(tuned.make("results/tuning/tuned/round1/budget.json"))
    receipts = tuned.directory / "results/tuning/tuned/round1"
    (receipts / f"{'0' * 64}.json").write_text('{"left by": "a kernel that is gone"}')
    tuned.edit("models.again", None)
    succeeded(tuned.make())
    assert tuned.planned_rules() == {}
    found = fastest(tuned)
    assert {workload: latency for workload, latency in used(tuned).items() if latency} == found
    budget = tuned.result("results/tuning/tuned/round1/budget.json")
    assert all(kernel["users"] == ["digits/float32"] for kernel in budget["kernels"].values())


# --- runs beside each other -------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_two_runs_in_two_directories_with_the_same_records_and_cache_end_as_one_does(tuned: Project):
    tuned.edit("cache", "../cache")
    tuned.edit("targets.tuned.tuning.trials_per_kernel", TRIALS + 2)
    other = Project(tuned.directory.parent / "other")
    other.directory.mkdir()
    for name in ("digits.onnx", "digits-test.npz", "tvmake.yaml"):
        shutil.copy(tuned.directory / name, other.directory)
    with started(tuned, "tvmake", "make", "--no-warm") as first, started(other, "tvmake", "make") as second:
        for run in (first, second):
            _, err = run.communicate(timeout=HANG_S)
            assert run.returncode == 0, err
    store = RecordStore(tuned.directory.parent / "home" / "records")
    (context,) = store.contexts()
    for workload in store.workloads(context):
        lines = [piece.content for piece in store.journal(context, workload).scan()]
        digests = [line.digest for line in lines]  # type: ignore[union-attr]  # of a bad line there is none
        assert len(digests) == len(set(digests))
        # Each run waits for a kernel or measures what the other has not: neither measures less.
        assert len(store.load(context, workload)) >= TRIALS + 2
    for command in (("records", "verify"), ("cache", "verify")):
        succeeded(tuned.run("tvmake", *command))
    for project in (tuned, other):
        # The first run may have ended before the other's last record, and a receipt counts the records at its end.
        succeeded(project.make("--forcerun", "tune"))
        assert {workload: latency for workload, latency in used(project).items() if latency} == fastest(tuned)
        assert project.leftovers() == []
    patterns = ("results/digits/*", "results/digits/float32/**/*")
    assert tuned.hermetic(*patterns) == other.hermetic(*patterns)


# --- names that are seen late -----------------------------------------------------------------------------------------


@pytest.fixture
def late_names(tmp_path: Path) -> Iterator[Path]:
    """The library that delays the visibility of other processes' files."""
    need("cc")
    library = tmp_path / "late_names.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, LATE, "-ldl"], check=True)
    (tmp_path / "late").mkdir()
    yield library


def see_late(project: Project, library: Path, seconds: float) -> None:
    """Let later commands in the project see files of other processes only after a delay."""
    project.environment |= {
        "LD_PRELOAD": str(library),
        "LATE_S": str(seconds),
        "LATE_ROOTS": f"{project.directory / 'results'}:{project.directory.parent / 'home'}",
        "LATE_NOTES": str(library.parent / "late"),
    }


@pytest.mark.soak
def test_names_that_are_seen_late_change_no_result(tuned: Project, late_names: Path):
    before = tuned.hermetic("results/digits/**/*")
    shutil.rmtree(tuned.directory / "results")
    see_late(tuned, late_names, 1.0)
    done = tuned.run_process("tvmake", "make", "--latency-wait", "30")
    assert done.returncode == 0, done.stdout + done.stderr
    assert tuned.hermetic("results/digits/**/*") == before
    tuned.environment.clear()
    assert tuned.planned_rules() == {}


def test_records_that_are_seen_late_are_waited_for(tuned: Project, tmp_path: Path):
    before = used(tuned)
    (tuned.directory / TUNED / "best.json").unlink()
    (journal, *_) = sorted(tuned.directory.glob("../home/records/**/records.jsonl"))
    aside = tmp_path / "records.jsonl"
    journal.rename(aside)
    with started(tuned, "tvmake", "make", f"{TUNED}/best.json") as run:
        log = tuned.directory / "logs/digits/float32/tuned/pick_best.log"
        log.unlink()
        wait_until(log.exists)
        time.sleep(3)
        assert run.poll() is None
        aside.rename(journal)
        _, err = run.communicate(timeout=HANG_S)
    assert run.returncode == 0, err
    assert used(tuned) == before


@pytest.mark.soak
def test_a_run_ends_with_its_results_whatever_became_of_its_config_meanwhile(single: Project, tmp_path: Path):
    config = single.directory / "tvmake.yaml"
    good = config.read_text()
    file = "results/digits/float32/cpu/mod.json"
    shutil.rmtree(single.directory / "results")
    faults = Faults(single, tmp_path / "faults")
    faults.before(file, "pause")
    with started(single, "tvmake", "make") as run:
        faults.wait(file)
        config.write_text("models: [")
        faults.release(file)
        out, err = run.communicate(timeout=HANG_S)
    faults.end()
    assert (run.returncode, "results: results/summary.json" in out) == (0, True), err
    assert "note: tvmake.yaml changed during this run" in err
    assert "not valid YAML" in single.make().stderr
    config.write_text(good)
    assert "has changed" not in succeeded(single.make()).stderr


@pytest.mark.soak
def test_a_config_that_is_edited_during_a_run_of_several_rounds_counts_from_the_next_run(demo: Project, tmp_path: Path):
    change_weights(demo)  # results exist, so the rest is made in rounds, each a run of Snakemake
    file = "results/digits/float32/module.json"
    faults = Faults(demo, tmp_path / "faults")
    faults.before(file, "pause")
    with started(demo, "tvmake", "make") as run:
        faults.wait(file)
        demo.edit("build", {"opt_level": 2})
        demo.edit("benchmark.repeat", 5)
        faults.release(file)
        _, err = run.communicate(timeout=HANG_S)
    faults.end()
    assert run.returncode == 0, err
    assert "note: tvmake.yaml changed during this run" in err
    assert len(demo.result("results/digits/float32/cpu/latency.json")["report"]["samples_ms"]) == 3
    rules = demo.planned_rules()
    assert rules["build"] == rules["benchmark"] == 2
    succeeded(demo.make())
    assert len(demo.result("results/digits/float32/cpu/latency.json")["report"]["samples_ms"]) == 5


def test_a_model_that_changes_between_import_and_reference_is_refused(single: Project, tmp_path: Path):
    shutil.rmtree(single.directory / "results")
    faults = Faults(single, tmp_path / "faults")
    faults.before("results/digits/source.json", "pause")
    with started(single, "tvmake", "make", REFERENCE) as run:
        faults.wait("results/digits/source.json")
        change_weights(single)
        faults.release("results/digits/source.json")
        out, err = run.communicate(timeout=HANG_S)
    faults.end()
    assert run.returncode == 1
    assert "digits.onnx: has changed since it was imported" in out + err
    assert "note: digits.onnx changed during this run" in err
    succeeded(single.make(REFERENCE))
