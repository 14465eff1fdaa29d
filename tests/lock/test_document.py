"""run.lock: complete, the same for the same run, free of this machine's paths, and refused when it is not whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lock.made import BEST, CONFIG, ROOT, WORKLOADS, lock, plan_of
from tests.records.examples import CONTEXT
from tvmake.cli import run as tvmake
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.lock.artifacts import hermetic_outputs
from tvmake.lock.compilers import compilers
from tvmake.lock.document import is_lock, read_lock
from tvmake.lock.origins import inputs, models_by_input
from tvmake.plan.plan import Plan
from tvmake.records.frozen import read_frozen
from tvmake.stages.registry import patterns
from tvmake.storage.files import digest_file
from tvmake.targets.toolchain import driver_identity

LOCK = Path("run.lock")


def test_a_lock_holds_what_determined_the_run(run: Plan):
    locked = read_lock(LOCK)
    assert locked.origins.inputs["digits.onnx"] == digest_file(ROOT / "resources" / "digits.onnx")
    assert set(locked.origins.inputs) == {"digits.onnx", "digits-test.npz (dataset of digits)"}
    assert {"python", "apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "cyclonedx-python-lib"} <= set(
        locked.origins.versions
    )
    assert "torch" not in locked.origins.versions  # no model of this run comes from it
    assert locked.origins.compilers == dict.fromkeys(("cpu", "tuned"), driver_identity("g++"))
    assert set(locked.origins.cpus) == {"cpu", "tuned"}
    assert locked.origins.config["targets"]["tuned"]["tuning"]["trials_per_kernel"] == 2
    (conv, reshape) = locked.records["digits/float32/tuned"].kernels
    assert (conv.workload, conv.record, conv.trials) == (WORKLOADS[0], BEST.digest, 2)
    assert (reshape.record, reshape.reason) == (None, "moves data only")
    assert locked.records["digits/float32/tuned"].context == CONTEXT


def test_files_are_in_the_order_of_the_pipeline(run: Plan):
    stages = [entry.stage for entry in read_lock(LOCK).artifacts]
    assert list(dict.fromkeys(stages)) == ["import", "transform", "extract", "pick_best", "build", "export", "attest"]


def test_every_artifact_is_locked_or_known_to_be_measured():
    auto = {**CONFIG, "transform": {"layout": "auto"}}
    small, chosen = ({**CONFIG, "precisions": [name]} for name in ("int8", "auto"))
    joined = {**CONFIG, "models": {"chat": {"functions": {"decode": CONFIG["models"]["digits"]}}}}
    configs = (CONFIG, auto, small, chosen, joined)
    locked = {output.artifact for config in configs for _, output, _ in hermetic_outputs(plan_of(config))}
    measured = {
        "layout.json", "precision.json", "{workload}.json", "receipt.json", "numerics.json", "latency.json", "operator_errors.json",
        "summary.json", "summary.csv", "index.html", "best", "selection.json",
    }  # fmt: skip
    # Other frameworks make the reference and the self-tests' samples; budgets come from what was measured; configs hold this machine's paths.
    others = {
        "reference.npz",
        "self_test.npz",
        "budget.json",
        "round/workloads",
        "workloads/{workload}.json",
        "config.resolved.yaml",
    }
    assert locked | measured | others == set(patterns())
    assert not locked & (measured | others)


def test_the_same_run_has_the_same_lock_in_another_directory_and_process(run: Plan, tmp_path: Path):
    before = LOCK.read_bytes()
    other = tmp_path / "elsewhere" / "deeper"
    other.parent.mkdir()
    Path.cwd().rename(other)
    os.chdir(other)
    program = "from tests.lock.made import lock, plan_of; from pathlib import Path; lock(plan_of(), Path('again.lock'))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert Path("again.lock").read_bytes() == before


def test_no_place_on_this_machine_is_in_a_lock(run: Plan, tmp_path: Path):
    config = {"results": str(tmp_path / "out"), "tuning": {"store": "/srv/records", "shared": "s3://bucket/records"}}
    Path("results").rename(tmp_path / "out")
    values = {**plan_of().resolved_config(), **config}
    values["targets"]["tuned"]["tuning"]["store"] = "/srv/more"
    lock(plan_of(values), Path("other.lock"))
    text = Path("other.lock").read_text()
    for context in (str(tmp_path), "/srv", "s3://", str(ROOT)):
        assert context not in text
    assert text == LOCK.read_text()


def test_a_lock_names_the_commit_and_whether_it_was_changed(run: Plan):
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", *identity, *words], check=True, capture_output=True)

    assert read_lock(LOCK).origins.project is None
    git("init", "-q")
    git("add", "digits.onnx")
    git("commit", "-q", "-m", "model")
    project = read_lock(lock(run)).origins.project
    assert project is not None
    assert (len(project.commit), project.modified) == (40, False)
    with Path("digits.onnx").open("ab") as file:
        file.write(b" ")
    project = read_lock(lock(run)).origins.project
    assert project is not None
    assert project.modified


def test_a_run_with_a_missing_file_or_input_cannot_be_locked(run: Plan):
    Path("digits-test.npz").unlink()
    with pytest.raises(InputError, match=r"digits-test\.npz.*is missing"):
        lock(run)
    Path("results/digits/float32/cpu/mod.so").unlink()
    with pytest.raises(InputError, match=r"mod\.so: is not built yet"):
        lock(run)


@pytest.mark.parametrize("version", [0, 2, "1", None, True, [1], 10**30])
def test_another_schema_version_is_refused_with_who_wrote_it(run: Plan, version: object):
    values = json.loads(LOCK.read_text())
    LOCK.write_text(json.dumps({**values, "schema_version": version, "written_by": "tvmake 9.9", "new": 1}))
    for read in (read_lock, read_frozen):
        with pytest.raises(
            InputError, match=r"schema version .*, expected 1\n  use the tvmake that wrote it \(tvmake 9.9\)"
        ):
            read(LOCK)


def test_a_refused_lock_is_one_clear_line_on_the_command_line(run: Plan, capsys: pytest.CaptureFixture[str]):
    LOCK.write_text('{"schema_version": 2}')
    assert tvmake(["make", "--locked", "run.lock"]) == 1
    assert capsys.readouterr().err.startswith("error: run.lock: has schema version 2, expected 1\n  use the tvmake")
    assert tvmake(["make", "--locked", "absent.lock"]) == 1
    assert "error: absent.lock: no such lock" in capsys.readouterr().err
    assert tvmake(["make", "--locked", "run.lock", "results/summary.json"]) == 2
    assert "rebuilds and compares the whole run" in capsys.readouterr().err


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_lock_is_refused_or_still_a_lock(run: Plan, data: st.DataObject):
    content = bytearray(LOCK.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    Path("damaged.lock").write_bytes(content)
    try:
        assert read_lock(Path("damaged.lock")).schema_version == 1
    except InputError as error:
        assert error.where == "damaged.lock"


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"schema_version": 1}', "\x00" * 100])
def test_what_is_not_a_lock_is_refused(tmp_path: Path, text: str):
    (tmp_path / "bad.lock").write_text(text)
    for read in (read_lock, read_frozen):
        with pytest.raises(InputError):
            read(tmp_path / "bad.lock")


def test_modules_with_passes_and_factories_are_inputs_by_a_name_that_holds_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    site = tmp_path / "lib" / "site-packages"
    (site / "nets").mkdir(parents=True)
    (site / "nets" / "tiny.py").write_text("")
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine.py").write_text("")
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(str(site))
    plan = plan_of(
        {
            "models": {"net": {"source": "nets.tiny:make", "trusted": True}},
            "transform": {"passes": ["mine:first", {"use": "mine:second", "at": "after_fusion"}]},
        }
    )
    assert inputs(plan) == {"nets/tiny.py": [site / "nets" / "tiny.py"], "mine.py": [Path("mine.py")]}
    assert models_by_input(plan) == {"nets/tiny.py": {"net"}, "mine.py": {"net"}}


def test_a_compiler_is_named_for_targets_of_every_kind_and_a_missing_one_too():
    found = compilers(
        {
            "here": TargetConfig(kind="llvm"),
            "tag": TargetConfig(tag="nvidia/geforce-rtx-3090"),
            "none": TargetConfig(kind="llvm", cc="no-such-compiler"),
        }
    )
    assert found["here"] == found["tag"] == driver_identity("g++")
    assert found["none"] == "none (the compiler 'no-such-compiler' is not installed)"


def test_a_file_that_is_not_a_lock_is_not_overwritten(run: Plan, capsys: pytest.CaptureFixture[str]):
    Path("model.onnx").write_text("a model")
    assert tvmake(["lock", "-o", "model.onnx"]) == 1
    assert "model.onnx: exists and is not a lock" in capsys.readouterr().err
    assert Path("model.onnx").read_text() == "a model"
    assert is_lock(LOCK)


def test_a_pipe_is_no_lock_and_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "run.lock")
    with pytest.raises(InputError, match="cannot be read: it is a pipe, not a file"):
        read_lock(tmp_path / "run.lock")
