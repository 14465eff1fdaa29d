"""Invalid records, stores and budgets, as users of ``tvmake make`` and ``tvmake records`` see them."""

import copy
import shutil
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

from tests.workflow.project import TRIALS, Project
from tests.workflow.test_bad_input import refused
from tests.workflow.test_faults import small_disk
from tvmake.records.record import Record, TuningContext
from tvmake.records.store import RecordStore
from tvmake.tune.search.evolution import EVOLUTIONARY

pytestmark = pytest.mark.long

TUNED = "results/digits/float32/tuned"

MAX_INITIAL = 40
"""Trials within which a kernel of digits has a record of the search."""


def records(project: Project) -> RecordStore:
    """The project's store."""
    return RecordStore(project.directory.parent / "home" / "records")


def kernel(project: Project) -> tuple[TuningContext, str, str]:
    """A kernel that has been tuned: its context, key and receipt."""
    store = records(project)
    (context,) = store.contexts()
    key = store.workloads(context)[0]
    return context, key, f"results/tuning/tuned/round1/{key}.json"


def searched_again(project: Project, trials: int = TRIALS + 2) -> subprocess.CompletedProcess[str]:
    """Search further for one kernel."""
    project.edit("targets.tuned.tuning.trials_per_kernel", trials)
    return project.make(kernel(project)[2])


def drawn_record(project: Project) -> tuple[Record, int]:
    """A record of the search for that kernel, and the trials until then: initial schedules come first, as many as suit the
    processor."""
    context, key, _ = kernel(project)
    trials = TRIALS
    while True:
        for entry in records(project).load(context, key):
            if entry.record.strategy == EVOLUTIONARY:
                return entry.record, trials
        trials += TRIALS
        assert trials < MAX_INITIAL, "the initial schedules end"
        assert searched_again(project, trials).returncode == 0


def test_a_store_that_is_not_a_directory_is_refused_before_anything_runs(tuned: Project):
    (tuned.directory / "file").write_text("")
    for store in ("file", "file/below"):
        tuned.edit("tuning.store", store)
        for command in ("make", "check"):
            line = refused(tuned.run("tvmake", command), 1, "name a directory for the records")
            assert f"tuning.store: {store}: " in line


def test_damaged_lines_of_the_store_are_set_aside_named_and_measured_again(tuned: Project):
    context, key, receipt = kernel(tuned)
    journal = records(tuned).journal(context, key)
    _, trials = drawn_record(tuned)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    drawn = next(position for position, line in enumerate(lines) if EVOLUTIONARY.encode() in line)
    lines[drawn] = lines[drawn].replace(EVOLUTIONARY.encode(), b"revolution!!")
    journal.path.write_bytes(b"".join([*lines, b"noise\n"]))
    done = searched_again(tuned, trials + 1)
    assert done.returncode == 0, done.stderr
    assert f"warning: {journal.path}: 2 damaged lines set aside (in quarantine.jsonl, with the reason)" in done.stderr
    assert (tuned.result(receipt)["trials"], tuned.result(receipt)["measured_now"]) == (trials + 1, 2)
    verified = tuned.run("tvmake", "records", "verify")
    assert verified.returncode == 0
    assert "2 invalid lines set aside earlier (quarantine.jsonl)" in verified.stdout


def test_records_that_crash_tvm_are_named_and_the_search_reaches_its_budget(tuned: Project):
    context, key, receipt = kernel(tuned)
    store = records(tuned)
    good, trials = drawn_record(tuned)
    trace = copy.deepcopy(good.trace)
    trace[1] = [[index, [0] * len(value) if isinstance(value, list) else value] for index, value in trace[1]]
    store.append(context, key, [good.model_copy(update={"trace": trace, "samples_s": (1e-8,)})])
    done = searched_again(tuned, trials + 3)
    assert done.returncode == 0, done.stderr
    assert f"warning: kernel {key[:12]}: 1 unusable records left out (" in done.stderr
    assert "TVM ends with SIGFPE" in done.stderr
    assert tuned.result(receipt)["measured_now"] == 2
    assert "1x wrong_output: the trace does not apply: TVM ends with SIGFPE" in (
        tuned.run("tvmake", "records", "show", key).stdout
    )


def test_imported_records_of_another_target_or_tvm_are_kept_apart_and_change_nothing(tuned: Project):
    context, key, _ = kernel(tuned)
    good: Record = records(tuned).load(context, key)[0].record
    other = RecordStore(tuned.directory / "other")
    contexts = [
        context.model_copy(update=change) for change in ({"generation": "tvm-0.26.0"}, {"device_class": "a phone"})
    ]
    for context in contexts:
        other.append(context, key, [good.model_copy(update={"samples_s": (1e-8,)})])
    done = tuned.run("tvmake", "records", "import", "other")
    assert done.returncode == 0, done.stderr
    assert "1 for llvm" in done.stdout and "on a phone" in done.stdout
    assert "note: some come from tvm-0.26.0; they are stored separately and not used by" in done.stderr
    before = tuned.result(f"{TUNED}/best.json")
    shutil.rmtree(tuned.directory / TUNED)
    assert tuned.make(f"{TUNED}/best.json").returncode == 0
    assert tuned.result(f"{TUNED}/best.json") == before


def test_a_full_disk_ends_a_search_with_one_line_and_free_space_resumes_it(tuned: Project):
    context, key, receipt = kernel(tuned)
    shutil.rmtree(tuned.directory / "results/tuning")
    disk = tuned.directory / "disk"
    with small_disk(disk, 24):
        tuned.edit("tuning.store", "disk/records")
        (disk / "ballast").write_bytes(bytes(4096))
        done = searched_again(tuned, 2 * TRIALS)
        line = refused(done, 3, "no space left")
        assert line.startswith("error: disk/records/")
        assert not (tuned.directory / receipt).exists()
        kept = len(RecordStore(disk / "records").load(context, key))
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        assert searched_again(tuned, 2 * TRIALS).returncode == 0
        assert tuned.result(receipt)["measured_now"] == 2 * TRIALS - kept


@pytest.mark.soak
def test_an_unreachable_shared_store_is_reported_once_and_nothing_is_lost(tuned: Project):
    unreachable = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    unreachable["AWS_MAX_ATTEMPTS"] = "1"  # for botocore; s3fs itself tries five times
    tuned.environment = unreachable
    tuned.edit("tuning.shared", "s3://bucket/records")
    tuned.edit("targets.tuned.tuning.trials_per_kernel", TRIALS + 1)
    done = tuned.make()
    line = refused(done, 3, "without `tuning.shared`, this machine's store alone is used")
    assert line.startswith("error: s3://bucket/records: the shared store cannot be reached (")
    assert done.stderr.count("the same error") == len(records(tuned).workloads(kernel(tuned)[0])) - 1


@pytest.mark.soak
def test_a_push_that_fails_after_the_search_loses_nothing(tuned: Project):
    context, key, receipt = kernel(tuned)
    with small_disk(tuned.directory / "disk", 4):
        tuned.edit("tuning.shared", "disk/shared")
        refused(searched_again(tuned), 3, "no space left")
        assert len(records(tuned).load(context, key)) == TRIALS + 2
        subprocess.run(["mount", "-o", "remount,size=4m", tuned.directory / "disk"], check=True)
        assert searched_again(tuned).returncode == 0
        assert tuned.result(receipt)["measured_now"] == 0
        assert f"{TRIALS + 2} new lines" not in tuned.run("tvmake", "records", "push").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"early_stopping": 2}, "early stopping"),
        pytest.param({"deadline_s": 1e-3}, "deadline", marks=pytest.mark.soak),
    ],
    ids=["early-stopping", "deadline"],
)
def test_the_reason_for_a_search_that_stopped_early_is_reported(tuned: Project, options: dict, said: str):
    tuned.edit("targets.tuned.tuning", {**tuned.config["targets"]["tuned"]["tuning"], **options})
    done = searched_again(tuned, 1000)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "tune " in line and "to 1000 trials" in line]
    assert line.endswith(said)


@pytest.mark.soak
def test_fewer_trials_than_a_batch_and_than_kernels_are_spread_one_each(tuned: Project):
    tuning = {**tuned.config["targets"]["tuned"]["tuning"], "trials": 2, "batch": 16}
    del tuning["trials_per_kernel"]
    tuned.edit("targets.tuned.tuning", tuning)
    tuned.environment = {"TVMAKE_HOME": str(tuned.directory / "empty")}
    assert tuned.make(f"{TUNED}/best.json").returncode == 0
    budget = tuned.result("results/tuning/tuned/round1/budget.json")["kernels"]
    assert {kernel["trials"] for kernel in budget.values()} == {1}
    assert {kernel["trials"] for kernel in tuned.result(f"{TUNED}/best.json")["kernels"] if kernel["record"]} == {1}


def test_a_model_with_nothing_to_tune_builds_and_meets_any_coverage(tuned: Project):
    specs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [4, 4]), ("y", [16]))
    ]
    shape = onnx.numpy_helper.from_array(onnx.numpy_helper.np.array([16]), "shape")
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", specs[:1], specs[1:], [shape])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tuned.directory / "flat.onnx",
    )
    tuned.write_config(
        {
            **tuned.config,
            "models": {"flat": {"source": "flat.onnx"}},
            "tuning": {"require_coverage": 1.0},
            "targets": {"tuned": tuned.config["targets"]["tuned"]},
        }
    )
    tuned.edit("benchmark.baseline", False)
    done = tuned.make()
    assert done.returncode == 0, done.stderr
    assert all(task["trivial"] for task in tuned.result("results/flat/float32/tuned/tasks.json")["tasks"])
    (row,) = tuned.result("results/summary.json")["rows"]
    assert (row["tuned_kernels"], row["tunable_kernels"], row["tuned_share"]) == (0, 0, None)
    assert "nothing to" in done.stdout
