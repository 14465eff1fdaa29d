"""Variants that are known to be up to date without Snakemake: effects of changes, and when the answer is kept."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.load import load_layers
from tvmake.engine.up_to_date import noop
from tvmake.engine.up_to_date.noop import keep_answer, up_to_date
from tvmake.engine.up_to_date.run_fingerprint import RunFingerprint, run_fingerprint
from tvmake.engine.up_to_date.scope import jobs_of
from tvmake.plan.plan import Plan, Variant
from tvmake.storage.notes.job_records import Invocation, record_file, record_job
from tvmake.storage.notes.known_digests import DIGESTS

LATER_NS = 10_000_000_000
"""A start of planning ten seconds from now, when all existing files have settled."""

CONFIG = {
    "models": {"one": {"source": "one.onnx"}, "two": {"source": "two.onnx"}},
    "precisions": ["float32", "float16"],
    "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
}

EVERYTHING = {Variant(model, precision, "cpu") for model in ("one", "two") for precision in ("float32", "float16")}
OF_ONE = {variant for variant in EVERYTHING if variant.model == "one"}
NOTHING: set[Variant] = set()


def ask(environment: dict[str, str] | None = None) -> RunFingerprint:
    """The fingerprint of a run in this directory."""
    files = [Path("tvmake.yaml")]
    found = run_fingerprint(Plan(load_layers(files, {})), files, environment or {})
    assert found is not None
    return found


def later_ns() -> int:
    return time.time_ns() + LATER_NS


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFingerprint:
    """A project with all results and records, and the answer that nothing is left to do."""
    monkeypatch.chdir(tmp_path)
    Path("tvmake.yaml").write_text(yaml.safe_dump(CONFIG))
    for name in ("one", "two"):
        Path(f"{name}.onnx").write_bytes(b"net" + name.encode())
    plan = Plan(load_layers([Path("tvmake.yaml")], {}))
    for job in jobs_of(plan, plan.variants):
        read = [Path(name) for name in job.inputs if name not in job.untimed]
        roots = plan.roots(job.stage, job.wildcards)
        with record_job(read, map(Path, job.outputs), Invocation(options=job.options, roots=roots)):
            for name in job.outputs:
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                if name.endswith(("sources", "best")):
                    Path(name).mkdir(exist_ok=True)
                    Path(name, "kernel.cl").write_text("content")
                else:
                    Path(name).write_text(f"content of {name}")
    Path(".snakemake/incomplete").mkdir()
    asked = ask()
    keep_answer(asked, later_ns())
    return asked


def known() -> tuple[set[Variant], bool]:
    """The variants that the next run skips, and whether it skips the report."""
    found = up_to_date(ask())
    return set(found.variants), found.report


def edited(key: str, value: object) -> None:
    config = yaml.safe_load(Path("tvmake.yaml").read_text())
    section = config
    *parents, last = key.split(".")
    for parent in parents:
        section = section.setdefault(parent, {})
    section[last] = value
    Path("tvmake.yaml").write_text(yaml.safe_dump(config))


def other_content_of_the_same_size_and_time(name: str) -> None:
    before = Path(name).stat()
    Path(name).write_bytes(Path(name).read_bytes()[::-1])
    os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns))


def a_copy_with_its_times(name: str) -> None:
    shutil.copy2(name, "copy")
    Path("copy").replace(name)


def a_lock() -> None:
    Path(".snakemake/locks").mkdir()
    Path(".snakemake/locks/0.output.lock").touch()


def test_where_nothing_has_changed_everything_is_left_out(made: RunFingerprint):
    assert known() == (EVERYTHING, True)
    assert up_to_date(made).is_everything(made.plan)
    assert known() == (EVERYTHING, True)


PACKAGE = "results/one/float32/cpu/package.tar"
ONE = {Variant("one", "float32", "cpu")}

CHANGES: dict[str, tuple[Callable[[], object], set[Variant]]] = {
    "source: same size and time": (lambda: other_content_of_the_same_size_and_time("one.onnx"), OF_ONE),
    "source: moved in with its time": (lambda: a_copy_with_its_times("one.onnx"), NOTHING),
    "source: touched": (lambda: os.utime("one.onnx"), NOTHING),
    "a side file of a source appears": (lambda: Path("one.onnx.data").touch(), OF_ONE),
    "package: gone": (lambda: Path(PACKAGE).unlink(), ONE),
    "package: replaced, same size and time": (lambda: other_content_of_the_same_size_and_time(PACKAGE), ONE),
    "package: touched": (lambda: os.utime(PACKAGE), NOTHING),
    "package: its record is gone": (lambda: record_file(PACKAGE).unlink(), ONE),
    "output directory: gone": (lambda: shutil.rmtree("results/one/float32/cpu/sources"), ONE),
    "output directory: another file in it": (
        lambda: other_content_of_the_same_size_and_time("results/one/float32/cpu/sources/kernel.cl"),
        ONE,
    ),
    "shared result: other content": (lambda: Path("results/one/model.json").write_text("other"), OF_ONE),
    "option of a model": (lambda: edited("models.one.dims", {"n": 1}), OF_ONE),
    "option of a precision": (
        lambda: edited("precisions", {"float32": {"base": "float16", "never": ["nn.relu"]}, "float16": {}}),
        {variant for variant in EVERYTHING if variant.precision == "float32"},
    ),
    "option of the target": (lambda: edited("targets.cpu.mcpu", "x86-64"), EVERYTHING),
    "option of every build": (lambda: edited("build.opt_level", 2), EVERYTHING),
    "another target": (lambda: edited("targets.generic", {"kind": "llvm"}), NOTHING),
    "a target less": (lambda: edited("precisions", ["float32"]), NOTHING),
    "an incomplete result": (lambda: Path(".snakemake/incomplete/of-model").touch(), EVERYTHING),
    "a plain snakemake is running": (a_lock, EVERYTHING),
    "the answer: gone": (lambda: noop.ANSWER.unlink(), EVERYTHING),
    "the answer: cut off": (lambda: noop.ANSWER.write_text(noop.ANSWER.read_text()[:-20]), EVERYTHING),
    "the answer: of another form": (
        lambda: noop.ANSWER.write_text(noop.ANSWER.read_text().replace(f'"form": {noop.FORM}', '"form": 2')),
        EVERYTHING,
    ),
    "the known digests: gone": (lambda: DIGESTS.unlink(missing_ok=True), NOTHING),
}


@pytest.mark.parametrize("change", CHANGES)
def test_snakemake_plans_only_the_variants_that_a_change_concerns(made: RunFingerprint, change: str):
    make_change, concerned = CHANGES[change]
    make_change()
    variants, _ = known()
    assert variants == {variant for variant in ask().plan.variants if variant in EVERYTHING} - concerned


def test_a_variant_that_is_new_or_gone_concerns_the_report(made: RunFingerprint):
    edited("targets.generic", {"kind": "llvm"})
    assert known() == (EVERYTHING, False)
    edited("targets", CONFIG["targets"])
    assert known() == (EVERYTHING, True)
    edited("precisions", ["float32"])
    assert known()[1] is False


def test_a_report_that_is_gone_is_made_without_the_variants(made: RunFingerprint):
    Path("results/index.html").unlink()
    assert known() == (EVERYTHING, False)


def test_a_file_that_no_job_knows_changes_nothing(made: RunFingerprint):
    Path("results/notes.txt").touch()
    assert known() == (EVERYTHING, True)


def test_a_comment_in_the_config_changes_nothing(made: RunFingerprint):
    Path("tvmake.yaml").write_text("# a comment\n" + Path("tvmake.yaml").read_text())
    assert known() == (EVERYTHING, True)


def test_other_rules_or_profiles_have_snakemake_plan_everything(made: RunFingerprint):
    Path("profiles/default").mkdir(parents=True)
    Path("profiles/default/config.yaml").write_text("forceall: true\n")
    assert known() == (NOTHING, False)


def test_the_records_are_read_where_files_may_have_changed_while_the_answer_was_found(made: RunFingerprint):
    keep_answer(made, time.time_ns())
    assert known() == (EVERYTHING, True)
    Path(PACKAGE).write_text("new")
    assert known()[0] == EVERYTHING - ONE


def test_an_intermediate_file_that_was_gone_already_is_noted_as_gone(made: RunFingerprint):
    """Snakemake does not need an intermediate file if the files before and after it exist."""
    between = Path("results/one/float32/module.json")
    between.unlink()
    assert known()[0] == EVERYTHING - ONE
    keep_answer(ask(), later_ns())
    assert known() == (EVERYTHING, True)
    between.touch()
    assert known()[0] == EVERYTHING - ONE


@pytest.mark.parametrize("path", [".snakemake/incomplete/of-model", ".snakemake/locks/0.output.lock"])
def test_no_answer_is_kept_beside_a_plain_snakemake(made: RunFingerprint, path: str):
    noop.ANSWER.unlink()
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).touch()
    keep_answer(ask(), later_ns())
    assert not noop.ANSWER.exists()
