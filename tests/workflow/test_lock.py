"""A locked run, rebuilt at another site: equal bytes, or the first difference and its cause."""

import shutil
from pathlib import Path

import pytest

from tests.workflow.project import Project
from tvmake.lock.document import read_lock
from tvmake.provenance.check import check_package
from tvmake.records.store import RecordStore

pytestmark = pytest.mark.long

HERMETIC = (
    "results/**/*.json",
    "results/**/*.params",
    "results/**/mod.so",
    "results/**/package.*",
    "results/**/sources/*",
)
NOT_LOCKED = ("budget.json", "summary.json")
"""Results that only measuring gives."""


def locked(project: Project) -> Path:
    """The project's lock with its bundle, models included."""
    for command in (("lock",), ("bundle", "export", "out.tar", "--inputs")):
        done = project.run("tvmake", *command)
        assert done.returncode == 0, done.stderr
    return project.directory / "run.lock"


def add_a_faster_record(project: Project) -> None:
    """Simulate a later search with a faster record."""
    store = RecordStore(project.directory.parent / "home" / "records")
    (context,) = store.contexts()
    for workload in store.workloads(context):
        best = min((one for one in store.load(context, workload) if one.latency_ms), key=lambda one: one.latency_ms)
        faster = best.record.model_copy(update={"samples_s": (best.latency_ms * 1e-4,), "batch": 99})
        store.append(context, workload, [faster])


def test_a_run_is_rebuilt_at_another_site_byte_for_byte_and_differences_are_named(tuned: Project, tmp_path: Path):
    lock = locked(tuned)
    other = Project(tmp_path / "other" / "site")
    other.directory.mkdir(parents=True)
    done = other.run("tvmake", "bundle", "import", str(tuned.directory / "out.tar"))
    assert done.returncode == 0, done.stderr
    add_a_faster_record(other)

    done = other.make("--locked", "run.lock")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "a faster one came since" in done.stderr
    count = len(read_lock(lock).artifacts)
    assert f"run.lock: all {count} files are the same, byte for byte ({count} rebuilt)" in done.stdout
    here, there = tuned.hermetic(*HERMETIC), other.hermetic(*HERMETIC)
    assert set(there) <= set(here)
    assert len(there) == count
    assert there == {path: here[path] for path in there}
    for package in other.directory.glob("results/*/*/*/package.tar"):
        assert check_package(package).has_list

    again = other.make("--locked", "run.lock")
    assert again.returncode == 0, again.stderr
    assert "all files existed already; --forceall rebuilds them" in again.stderr

    done = other.make("--locked", "run.lock", "--set", "build.opt_level=2")
    assert done.returncode == 1
    assert "  config build.opt_level: 2 (3 in the lock)\n" in done.stderr
    assert done.stderr.index("config build.opt_level") < done.stderr.index("✓ build")
    assert "error: results/digits/float32/cpu/mod.json: differs in key build, and " in done.stderr
    assert done.stderr.rstrip().endswith("likely because of config build.opt_level: 2 (3 in the lock)")

    shutil.copy(tuned.directory / "digits.pt2", other.directory / "digits.onnx")  # another file by that name
    done = other.make("--locked", "run.lock", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "  input digits.onnx: another file, sha256 " in done.stderr


def test_a_run_that_is_not_up_to_date_is_not_locked(tuned: Project):
    tuned.edit("build.opt_level", 2)
    done = tuned.run("tvmake", "lock")
    assert done.returncode == 1
    assert done.stderr.startswith("error: results: is not up to date (would ")
    assert done.stderr.endswith("run `tvmake make` first\n")
    assert not (tuned.directory / "run.lock").exists()


def test_the_locks_own_config_is_the_default_and_missing_records_are_named(tuned: Project, tmp_path: Path):
    lock = locked(tuned)
    bare = Project(tmp_path / "bare" / "checkout")
    bare.directory.mkdir(parents=True)
    for file in (lock, tuned.directory / "digits.onnx"):
        shutil.copy(file, bare.directory)
    done = bare.make("--locked", "run.lock", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "note: no config here; using the one in run.lock" in done.stderr
    assert "the one used, " in done.stderr
    assert f"is not in {bare.directory.parent / 'home'}" in done.stderr
    assert "would pick_best digits float32 tuned" in done.stderr
    assert "tune " not in done.stderr.replace("tuned", "")
