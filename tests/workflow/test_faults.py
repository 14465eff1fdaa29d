"""Kills, interrupts and full disks: a rerun ends like an undisturbed run."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import HANG_S, wait_until
from tests.requirements import need, require
from tests.workflow.faults import Faults, is_running, started
from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import Project, changed_weights, new_project

pytestmark = pytest.mark.long

MODEL, TRANSFORMED, VARIANT = "results/digits", "results/digits/float32", "results/digits/float32/cpu"

OUTPUTS = {
    "import": [f"{MODEL}/{name}" for name in ("model.params", "model.json", "source.json", "signature.json")],
    "reference": [f"{MODEL}/reference.npz"],
    "self_test": [f"{MODEL}/self_test.npz"],
    "transform": [f"{TRANSFORMED}/{name}" for name in ("module.params", "module.json", "signature.json")],
    "build": [f"{VARIANT}/{name}" for name in ("mod.so", "packing.json", "sources", "mod.json")],
    "export": [f"{VARIANT}/package.tar"],
    "attest": [f"{VARIANT}/package.provenance.json", f"{VARIANT}/package.cdx.json"],
    "deploy": [f"{VARIANT}/receipt.json"],
    "validate": [f"{VARIANT}/numerics.json"],
    "benchmark": [f"{VARIANT}/latency.json"],
    "report": ["results/summary.json", "results/summary.csv", "results/index.html"],
}
"""Each stage's outputs in the order of writing."""

FIXED = (f"{MODEL}/*", f"{TRANSFORMED}/*", f"{VARIANT}/**/*")
"""The results of a project of one variant."""


@pytest.fixture
def small(fresh: Project) -> Project:
    """A project of one variant that has not run yet."""
    fresh.write_config({**fresh.config, "precisions": ["float32"]})
    fresh.edit("benchmark.baseline", False)
    return fresh


@pytest.fixture
def unreported(single: Project) -> Project:
    """A finished project without its report."""
    (single.directory / "results" / "summary.json").unlink()
    return single


def assert_as_undisturbed(project: Project, finished: Project) -> None:
    """The results are those of an undisturbed run."""
    project.environment.clear()
    assert project.hermetic(*FIXED) == finished.hermetic(*FIXED)
    assert {row["verdict"] for row in project.result("results/summary.json")["rows"]} == {"pass"}
    assert project.leftovers() == []
    assert project.planned_rules() == {}


def run_into_faults(project: Project, faults: Faults) -> int:
    """Run until nothing fails; returns the number of failed runs."""
    for failed in range(len(faults.pending) + 1):
        before = len(faults.pending)
        done = project.make("--quiet")
        assert "Traceback" not in done.stdout + done.stderr
        if done.returncode == 0:
            return failed
        assert len(faults.pending) < before, f"failed without a fault: {done.stderr}"
        assert "error: " in done.stderr
    raise AssertionError("failed more often than there were faults")


def test_a_pipeline_with_a_kill_in_every_stage_ends_as_an_undisturbed_one(
    small: Project, finished: Project, tmp_path: Path
):
    faults = Faults(small, tmp_path / "faults")
    for number, files in enumerate(OUTPUTS.values()):
        # Between two outputs, if there are several.
        faults.before(files[len(files) // 2], "kill parent" if number % 2 else "kill worker")
    assert run_into_faults(small, faults) >= 1
    assert faults.pending == set()
    assert_as_undisturbed(small, finished)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of one variant with other weights, made without faults."""
    project = new_project(tmp_path_factory.mktemp("undisturbed") / "project")
    project.write_config({**project.config, "precisions": ["float32"]})
    project.edit("benchmark.baseline", False)
    changed_weights(project.directory / "digits.onnx", project.directory / "digits.onnx")
    assert project.make("--quiet").returncode == 0
    return project


@pytest.mark.parametrize(
    ("command", "gone"),
    [
        (tuple(snakemake("--cores", "2")), None),
        pytest.param(("tvmake", "make"), "results/digits/model.params", marks=pytest.mark.soak),
        pytest.param(("tvmake", "make"), None, marks=pytest.mark.soak),
        pytest.param(tuple(snakemake("--cores", "2")), "results/digits/model.params", marks=pytest.mark.soak),
    ],
    ids=["snakemake", "make, a file gone", "make", "snakemake, a file gone"],
)
def test_nothing_is_built_of_an_old_network_once_the_stage_that_reads_the_new_one_has_failed(
    single: Project, undisturbed: Project, tmp_path: Path, gone: str | None, command: tuple[str, ...]
):
    # The build of the old network still exists, but its inputs do not.
    changed_weights(single.directory / "digits.onnx", single.directory / "digits.onnx")
    faults = Faults(single, tmp_path / "faults")
    faults.before("results/digits/float32/module.json", "kill worker")
    assert single.make("--quiet").returncode != 0
    faults.end()
    if gone:
        (single.directory / gone).unlink()
    done = single.run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_as_undisturbed(single, undisturbed)


@pytest.mark.soak
@pytest.mark.parametrize("who", ["worker", "parent"])
@pytest.mark.parametrize("stage", OUTPUTS)
def test_a_stage_killed_before_any_of_its_outputs_ends_as_an_undisturbed_one(
    single: Project, finished: Project, tmp_path: Path, stage: str, who: str
):
    for file in OUTPUTS[stage]:
        single.run("rm", "-r", file)
    faults = Faults(single, tmp_path / "faults")
    for file in OUTPUTS[stage]:
        faults.before(file, f"kill {who}")
    assert run_into_faults(single, faults) == len(OUTPUTS[stage])
    assert_as_undisturbed(single, finished)


def test_a_killed_step_takes_its_worker_with_it(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "kill parent")
    done = unreported.make()
    assert done.returncode == 1
    wait_until(lambda: not is_running(faults.process("results/summary.csv")))


def test_after_a_kill_of_the_whole_run_the_same_command_completes_it(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, "tvmake", "make") as run:
        faults.wait("results/summary.csv")
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    wait_until(lambda: not is_running(faults.process("results/summary.csv")))
    faults.end()
    assert unreported.leftovers() != []
    done = unreported.make()
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("note: the last run here was killed; its lock was removed\n") == 1
    assert unreported.leftovers() == []
    assert unreported.planned_rules() == {}


def test_the_jobs_of_a_killed_run_end_with_the_warm_processes_they_run_in(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, "tvmake", "make") as run:
        faults.wait("results/summary.csv")
        run.kill()
        run.wait()
        wait_until(lambda: not is_running(faults.process("results/summary.csv")))
    faults.end()
    done = unreported.make()
    assert done.returncode == 0, done.stderr
    assert unreported.planned_rules() == {}


def test_a_killed_runs_job_that_keeps_writing_harms_nothing(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, "tvmake", "make", "--no-warm") as run:
        faults.wait("results/summary.csv")
        run.kill()
        run.wait()
        assert is_running(faults.process("results/summary.csv"))
        faults.end()
        done = unreported.make()
        assert done.returncode == 0, done.stderr
        before = unreported.result("results/summary.json")
        faults.release("results/summary.csv")
        wait_until(lambda: not is_running(faults.process("results/summary.csv")))
    assert unreported.result("results/summary.json") == before
    assert unreported.leftovers() == []
    assert unreported.planned_rules() == {}


def test_ctrl_c_ends_with_one_line_and_the_same_command_resumes(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, "tvmake", "make") as run:
        faults.wait("results/summary.csv")
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=HANG_S)
    assert run.returncode == 130
    assert out == ""
    assert err == "interrupted; finished results are kept; run the same command to resume\n"
    faults.end()
    assert "failed" not in unreported.run("tvmake", "status").stdout
    assert unreported.leftovers() == []
    done = unreported.make()
    assert done.returncode == 0, done.stderr
    assert "note: " not in done.stderr
    assert unreported.planned_rules() == {}


STOPPED_AT = """
import os, sys

def listen(event, arguments):
    if event == "import" and arguments[0] == {module!r} and sys.argv[1:2] == ["make"]:
        os.kill(os.getpid(), {number})

sys.addaudithook(listen)
"""


@pytest.mark.parametrize(
    ("module", "number", "how"),
    [
        ("pydantic", signal.SIGINT, "interrupted"),
        ("tvmake.plan.plan", signal.SIGTERM, "ended by SIGTERM"),
        ("snakemake.cli", signal.SIGINT, "interrupted"),
        ("tvmake.process.forkserver.pool", signal.SIGHUP, "ended by SIGHUP"),
    ],
)
def test_a_run_that_is_stopped_before_its_jobs_says_so_and_leaves_nothing(
    tmp_path: Path, module: str, number: signal.Signals, how: str
):
    project = new_project(tmp_path / "project")
    listener, temporary = tmp_path / "listener", tmp_path / "temporary"
    listener.mkdir()
    temporary.mkdir()
    (listener / "sitecustomize.py").write_text(STOPPED_AT.format(module=module, number=int(number)))
    project.environment |= {"PYTHONPATH": str(listener), "TMPDIR": str(temporary)}
    with started(project, "tvmake", "make") as run:
        out, err = run.communicate(timeout=HANG_S)
    assert (run.returncode, out) == (128 + number, "")
    assert err == f"{how}; finished results are kept; run the same command to resume\n"
    assert project.leftovers() == []
    assert list(temporary.iterdir()) == []
    status = project.run("tvmake", "status").stdout
    assert "missing" in status
    assert "failed" not in status


def test_sigterm_lets_running_jobs_finish_and_the_same_command_resumes(single: Project, tmp_path: Path):
    (single.directory / VARIANT / "package.tar").unlink()
    (single.directory / "results" / "summary.json").unlink()
    faults = Faults(single, tmp_path / "faults")
    faults.before(f"{VARIANT}/package.tar", "pause")
    with started(single, "tvmake", "make") as run:
        faults.wait(f"{VARIANT}/package.tar")
        run.terminate()
        faults.release(f"{VARIANT}/package.tar")
        _, err = run.communicate(timeout=HANG_S)
    faults.end()
    assert run.returncode == 128 + signal.SIGTERM
    assert err.splitlines()[-1] == "ended by SIGTERM; finished results are kept; run the same command to resume"
    assert "Traceback" not in err
    assert (single.directory / VARIANT / "package.tar").is_file()
    assert not (single.directory / "results" / "summary.json").exists()
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert single.leftovers() == []
    assert single.planned_rules() == {}


def test_a_second_run_in_the_same_directory_is_refused_and_the_first_continues(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, "tvmake", "make") as first:
        faults.wait("results/summary.csv")
        faults.end()
        before = unreported.files("**/*")
        second = unreported.make()
        assert second.returncode == 3
        assert second.stdout == ""
        assert second.stderr.startswith(f"error: {unreported.directory}: another `tvmake make` is running here")
        assert f"(process {first.pid})" in second.stderr
        assert second.stderr.count("\n") == 2  # the cause and the remedy
        assert unreported.files("**/*") == before
        assert unreported.planned_rules() == {"report": 1}
        faults.release("results/summary.csv")
        _, err = first.communicate(timeout=HANG_S)
    assert first.returncode == 0, err
    assert unreported.planned_rules() == {}


def test_a_running_plain_snakemake_is_not_disturbed(unreported: Project, tmp_path: Path):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, *snakemake()) as first:
        faults.wait("results/summary.csv")
        faults.end()
        second = unreported.make()
        assert second.returncode == 3, second.stderr
        assert second.stderr.startswith("error: snakemake: another run uses this directory")
        assert second.stderr.count("\n") == 2
        faults.release("results/summary.csv")
        _, err = first.communicate(timeout=HANG_S)
    assert first.returncode == 0, err


def test_the_lock_of_a_killed_plain_snakemake_goes_with_the_command_the_error_names(
    unreported: Project, tmp_path: Path
):
    faults = Faults(unreported, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(unreported, *snakemake()) as run:
        faults.wait("results/summary.csv")
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    faults.end()
    refused = unreported.make()
    assert refused.returncode == 3
    assert "`tvmake make --unlock`" in refused.stderr
    unlocked = unreported.make("--unlock")
    assert (unlocked.returncode, unlocked.stdout) == (0, "")
    assert unreported.make().returncode == 0


@contextmanager
def small_disk(directory: Path, kilobytes: int, options: str = "exec") -> Iterator[None]:
    """A disk of a few kilobytes mounted on ``directory``."""
    directory.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,{options}", "tvmake-test", directory],
        capture_output=True,
        check=False,
    )
    require(mounted.returncode == 0, "root, to mount file systems: run the tests as root")
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


@pytest.mark.soak
def test_a_full_disk_stops_each_stage_with_one_line_and_free_space_resumes_it(small: Project, finished: Project):
    results = small.directory / "results"
    refused = []
    with small_disk(results, 8):
        for kilobytes in (8, 60, 200, 340, 10_000):
            subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", results], check=True)
            done = small.make("--quiet")
            if done.returncode == 0:
                break
            assert done.returncode == 3, done.stderr
            refused += [line for line in done.stderr.splitlines() if "error: " in line]
            assert "no space left" in refused[-1], done.stderr
            assert "Traceback" not in done.stderr
            assert small.leftovers() == []
        assert_as_undisturbed(small, finished)
    assert len(refused) >= 3


def test_a_limit_on_file_sizes_is_one_line(small: Project, finished: Project):
    done = small.run("bash", "-c", "ulimit -f 20; exec tvmake make --quiet")
    assert done.returncode == 3, done.stderr
    assert "exceeds this process's limit on file sizes" in done.stderr
    assert "Traceback" not in done.stderr
    assert small.leftovers() == []


def test_a_read_only_project_is_refused_in_one_line(unreported: Project, tmp_path: Path):
    mount_point = tmp_path / "read-only"
    mount_point.mkdir()
    mounted = subprocess.run(["mount", "--bind", unreported.directory, mount_point], capture_output=True, check=False)
    require(mounted.returncode == 0, "root, to mount file systems: run the tests as root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", mount_point], check=True)
        done = Project(mount_point).make()
    finally:
        subprocess.run(["umount", mount_point], check=True)
    assert done.returncode == 3
    assert done.stderr.startswith("error: .snakemake")
    assert "Read-only file system" in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_directory_of_results_that_cannot_be_written_is_one_line(unreported: Project):
    need("chattr")
    results = unreported.directory / "results"
    changed = subprocess.run(["chattr", "+i", results], capture_output=True, check=False)
    require(
        changed.returncode == 0,
        "root, and a file system that knows chattr +i: run the tests as root on ext4, xfs or btrfs",
    )
    try:
        done = unreported.make()
    finally:
        subprocess.run(["chattr", "-i", results], check=True)
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("error: results: the directory cannot be written\n")
    assert "see its attributes (lsattr -d results)" in done.stderr
    assert unreported.make().returncode == 0


def test_a_broken_model_beside_a_good_one_leaves_the_good_one_finished(single: Project):
    (single.directory / "broken.onnx").write_bytes(b"not a model")
    single.edit("models.broken", {"source": "broken.onnx"})
    (single.directory / VARIANT / "latency.json").unlink()
    done = single.make()
    assert done.returncode == 1
    assert done.stderr.count("broken.onnx: ") == 1
    assert (single.directory / VARIANT / "latency.json").is_file()
    assert not (single.directory / "results" / "broken" / "model.json").exists()
