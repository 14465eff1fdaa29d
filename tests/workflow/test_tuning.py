"""A tuned target beside an untuned one: results, reruns, and no repeated measurements."""

import json
import shutil
from pathlib import Path

import pytest

from tests.workflow.faults import Faults, started
from tests.workflow.project import TRIALS, Project, tuned_project
from tvmake.artifact import stage_json
from tvmake.records.best import BestSet
from tvmake.records.store import RecordStore

TUNED = "results/digits/float32/tuned"
BEST = f"{TUNED}/best.json"


def receipts(project: Project, rounds: int = 1) -> list[dict]:
    """The receipts of the last round."""
    files = (project.directory / f"results/tuning/tuned/round{rounds}").glob("?" * 64 + ".json")
    return [json.loads(file.read_text()) for file in sorted(files)]


def test_every_kernel_worth_it_gets_its_trials_and_the_build_uses_the_best(finished_tuned: Project):
    tasks = finished_tuned.result(f"{TUNED}/tasks.json")["tasks"]
    worth = [task["workload"] for task in tasks if task["trivial"] is None]
    assert len(worth) >= 3
    assert sorted(receipt["workload"] for receipt in receipts(finished_tuned)) == sorted(worth)
    assert {receipt["trials"] for receipt in receipts(finished_tuned)} == {TRIALS}
    best = {kernel["workload"]: kernel for kernel in finished_tuned.result(BEST)["kernels"]}
    assert all(best[workload]["record"] is not None for workload in worth)
    coverage = finished_tuned.result(f"{TUNED}/mod.json")["coverage"]
    assert coverage["tuned"] == coverage["tunable"] == len(worth)


def test_the_summary_has_tuned_beside_untuned(finished_tuned: Project):
    rows = {row["target"]: row for row in finished_tuned.result("results/summary.json")["rows"]}
    assert (rows["cpu"]["tuned"], rows["tuned"]["tuned"]) == ("no", "yes")
    assert {row["verdict"] for row in rows.values()} == {"pass"}


def test_a_finished_project_has_nothing_to_do(tuned: Project):
    assert tuned.planned_rules() == {}


def test_more_trials_measure_only_missing_candidates(tuned: Project):
    tuned.edit("targets.tuned.tuning.trials_per_kernel", TRIALS + 2)
    assert set(tuned.planned_rules()) >= {"budget", "pick_best", "build", "report"}
    done = tuned.make(BEST)
    assert done.returncode == 0, done.stderr
    assert {(receipt["trials"], receipt["measured_now"]) for receipt in receipts(tuned)} == {(TRIALS + 2, 2)}


def test_a_kernel_can_be_had_without_its_record(tuned: Project):
    name, other, *_ = [kernel["name"] for kernel in tuned.result(BEST)["kernels"] if kernel["record"]]
    tuned.edit("targets.tuned.tuning.untuned", [name, "no_such_kernel"])
    assert "tune" not in tuned.planned_rules()
    done = tuned.make(f"{TUNED}/mod.json")
    assert done.returncode == 0, done.stderr
    manifest = tuned.result(f"{TUNED}/mod.json")
    is_tuned = {kernel["name"]: kernel["is_tuned"] for kernel in manifest["kernels"]}
    assert not is_tuned[name] and is_tuned[other]
    assert manifest["coverage"]["misses"][name] == "tuning.untuned names it"
    (log,) = tuned.files("logs/digits/float32/tuned/pick_best.log").values()
    assert b"warning: tuning.untuned: there is no kernel 'no_such_kernel' here" in log


def test_without_results_the_records_are_still_there(tuned: Project):
    shutil.rmtree(tuned.directory / "results")
    before = tuned.files("../home/records/**/records.jsonl")
    done = tuned.make(BEST)
    assert done.returncode == 0, done.stderr
    assert {(receipt["trials"], receipt["measured_now"]) for receipt in receipts(tuned)} == {(TRIALS, 0)}
    assert {path: len(data) for path, data in tuned.files("../home/records/**/records.jsonl").items()} == {
        path: len(data) for path, data in before.items()
    }


def test_another_precision_of_the_same_kernels_measures_nothing_new(tuned: Project):
    # The same network under another name has the same kernels.
    tuned.edit("models.again", tuned.config["models"]["digits"])
    done = tuned.make("results/again/float32/tuned/best.json")
    assert done.returncode == 0, done.stderr
    budget = tuned.result("results/tuning/tuned/round1/budget.json")
    assert all(kernel["users"] == ["again/float32", "digits/float32"] for kernel in budget["kernels"].values())
    assert budget["trials_shared"] == TRIALS * len(budget["kernels"])
    assert {receipt["measured_now"] for receipt in receipts(tuned)} == {TRIALS}  # from the previous run: nothing reran


def test_a_killed_run_keeps_every_trial_it_measured(tmp_path: Path):
    project = tuned_project(tmp_path / "project")
    assert project.make("results/digits/float32/tuned/tasks.json").returncode == 0
    (workload, *_) = [
        task["workload"] for task in project.result(f"{TUNED}/tasks.json")["tasks"] if task["trivial"] is None
    ]
    receipt = f"results/tuning/tuned/round1/{workload}.json"
    faults = Faults(project, tmp_path / "faults")
    faults.before(receipt, "pause")
    with started(project, "tvmake", "make", receipt) as run:
        faults.wait(receipt)
        run.kill()
        run.wait()
    faults.end()
    assert not (project.directory / receipt).exists()
    done = project.make(receipt)
    assert done.returncode == 0, done.stderr
    again = project.result(receipt)
    assert (again["trials"], again["measured_now"]) == (TRIALS, 0)


def add_fastest_record(project: Project, trace: object = None) -> tuple[str, str]:
    """Add a record of a tuned kernel that is faster than all, as from another project; returns its workload and name."""
    store = RecordStore(project.directory.parent / "home" / "records")
    (context,) = store.contexts()
    kernels = stage_json.load(BestSet, project.directory / BEST).kernels
    chosen = next(kernel for kernel in kernels if kernel.record)
    faster = {"samples_s": tuple(sample / 2 for sample in chosen.record.samples_s)}
    if trace is not None:
        faster["trace"] = trace
    added = chosen.record.model_copy(update=faster)
    store.append(context, chosen.workload, [added])
    return chosen.workload, added.digest


def chosen_record(project: Project, workload: str) -> str:
    """The name of the record that a variant is built from."""
    return stage_json.load(BestSet, project.directory / BEST).by_workload()[workload].record.digest


@pytest.mark.long
def test_the_choice_follows_from_the_records_that_the_receipts_tell_of(tuned: Project):
    best = tuned.directory / BEST
    # When timed again, the added record could be slower than recorded.
    tuned.edit("tuning.finalists", 0)
    done = tuned.make(BEST)
    assert done.returncode == 0, done.stderr
    before = best.read_bytes()
    workload, added = add_fastest_record(tuned)
    assert tuned.planned_rules(BEST) == {}
    best.unlink()
    done = tuned.make(BEST)
    assert done.returncode == 0, done.stderr
    assert best.read_bytes() == before
    done = tuned.make("--forcerun", "tune", "--", BEST)
    assert done.returncode == 0, done.stderr
    assert chosen_record(tuned, workload) == added
    assert {receipt["measured_now"] for receipt in receipts(tuned)} == {0}


@pytest.mark.soak
def test_the_choice_is_repeatable_after_a_check_found_a_wrong_record(tuned: Project):
    best = tuned.directory / BEST
    workload, added = add_fastest_record(tuned, trace=[[["NoSuchStep", [], [], []]], []])
    done = tuned.make("--forcerun", "tune", "--", BEST)
    assert done.returncode == 0, done.stderr
    assert chosen_record(tuned, workload) != added
    before = best.read_bytes()
    best.unlink()
    done = tuned.make(BEST)
    assert done.returncode == 0, done.stderr
    assert best.read_bytes() == before


def test_a_target_without_a_device_cannot_be_tuned(tuned: Project):
    tuned.edit("targets.phone", {"tag": "qcom/adreno-opencl", "tuning": {"trials": 8}})
    done = tuned.make()
    assert done.returncode == 1
    assert "targets.phone.tuning: candidates are timed on a device\n  give the target one\n" in done.stderr


def test_a_build_that_demands_more_coverage_than_there_is_fails_with_the_misses(tuned: Project):
    tuned.edit("tuning", {"require_coverage": 0.9})
    done = tuned.make("results/digits/float32/cpu/mod.json")
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
