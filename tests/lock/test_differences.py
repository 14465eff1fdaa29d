"""What is other here than in the lock is named before anything is built, and what explains a difference afterwards."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lock.made import BEST, CONFIG, WORKLOADS, fill, lock, plan_of
from tests.records.examples import CONTEXT, record, verdict
from tvmake.lock.artifacts import Mismatch, mismatches
from tvmake.lock.differences import Difference, causes, differences
from tvmake.lock.document import Lock, read_lock
from tvmake.lock.rebuild import Outcome, compare, explain, modification_times
from tvmake.plan.plan import Plan
from tvmake.records.store import RecordStore

LOCK = Path("run.lock")


def edited(change: Callable[[Any], None]) -> Lock:
    """The lock with its origins changed, as if the run had been made under other circumstances."""
    values = json.loads(LOCK.read_text())
    change(values["origins"])
    Path("edited.lock").write_text(json.dumps(values))
    return read_lock(Path("edited.lock"))


def texts(found: list[Difference]) -> list[str]:
    return [one.text for one in found]


def test_nothing_is_other_where_nothing_changed(run: Plan):
    assert differences(run, read_lock(LOCK)) == []


def test_another_version_of_a_library_is_named_with_the_stages_it_matters_to(run: Plan):
    (found,) = differences(run, edited(lambda origins: origins["versions"].update(onnx="1.0")))
    assert found.text.startswith("version of onnx: ")
    assert found.text.endswith("(1.0 in the lock)")
    assert found.stages == {"import", "export"}, "the reference of self-tests is the one other reader"
    (found,) = differences(run, edited(lambda origins: origins["versions"].update({"apache-tvm": "0.26.0"})))
    assert {"transform", "extract", "build"} <= found.stages


def test_another_patch_release_of_python_is_worth_knowing_only(run: Plan):
    here = read_lock(LOCK).origins.versions["python"]
    minor = here.rpartition(".")[0]
    (found,) = differences(run, edited(lambda origins: origins["versions"].update(python=f"{minor}.99")))
    assert found.stages == frozenset()
    (found,) = differences(run, edited(lambda origins: origins["versions"].update(python="3.9.0")))
    assert "build" in found.stages


def test_another_compiler_and_another_cpu_are_named_by_target(run: Plan):
    def change(origins: Any) -> None:
        origins["compilers"]["cpu"] = "g++ 99"
        origins["cpus"]["tuned"] = "Other CPU"

    compiler, cpu = differences(run, edited(change))
    assert compiler.text.startswith("compiler of target cpu: g++")
    assert compiler.text.endswith("(g++ 99 in the lock)")
    assert cpu.text.startswith("CPU of target tuned: ")
    assert causes(Mismatch("build", "digits/float32/tuned/mod.so", "differs"), [compiler, cpu]) == [cpu]


def test_an_input_with_another_digest_is_named_and_a_missing_one_too(run: Plan):
    with Path("digits.onnx").open("ab") as file:
        file.write(b" ")
    Path("digits-test.npz").unlink()
    model, dataset = differences(run, read_lock(LOCK))
    assert model.text.startswith("input digits.onnx: another file, sha256 ")
    assert "import" in model.stages
    assert dataset.text == "input digits-test.npz (dataset of digits): missing"
    assert dataset.stages == frozenset()


@pytest.mark.parametrize(
    ("path", "value", "said", "stage"),
    [
        (("build", "opt_level"), 2, "config build.opt_level: 2 (3 in the lock)", "build"),
        (("transform", "fold_batch_norm"), False, "config transform.fold_batch_norm: false (true in the lock)", "transform"),
        (("targets", "cpu", "mcpu"), "haswell", "config targets.cpu.mcpu: haswell (native in the lock)", "build"),
        (("precisions",), {"float32": {"base": "float16"}}, "config precisions.float32.base: float16 (float32 in the lock)", "transform"),
    ],
)  # fmt: skip
def test_another_config_key_is_named_with_both_values(
    run: Plan, path: tuple[str, ...], value: Any, said: str, stage: str
):
    config = json.loads(json.dumps(CONFIG))
    node = config
    for part in path[:-1]:
        node = node.setdefault(part, {})
    node[path[-1]] = value
    found = differences(plan_of(config), read_lock(LOCK))
    (named,) = [one for one in found if one.text == said]
    assert stage in named.stages


def test_keys_that_only_measuring_reads_are_counted_not_blamed(run: Plan):
    config = {**CONFIG, "benchmark": {"repeat": 7}, "tuning": {"seed": 3}}
    (found,) = differences(plan_of(config), read_lock(LOCK))
    assert found.text == "config: 2 keys differ that only measuring reads"
    assert found.stages == frozenset()


def test_other_variants_are_named(run: Plan):
    config = {**CONFIG, "targets": {"cpu": CONFIG["targets"]["cpu"]}, "precisions": ["float32", "float16"]}
    found = texts(differences(plan_of(config), read_lock(LOCK)))
    assert found[:2] == ["variant digits/float32/tuned: in the lock only", "variant digits/float16/cpu: here only"]


def test_a_variant_that_is_tuned_on_one_side_only_is_named(run: Plan):
    native = CONFIG["targets"]["cpu"]
    config = {**CONFIG, "targets": {"cpu": {**native, "tuning": {"trials": 8}}, "tuned": native}}
    found = texts(differences(plan_of(config), read_lock(LOCK)))
    assert "variant digits/float32/cpu: tuned here, and not in the lock" in found
    assert "variant digits/float32/tuned: tuned in the lock, and not here" in found


def test_tvmakes_own_code_is_named_by_stage(run: Plan):
    (found,) = differences(run, edited(lambda origins: origins["tvmake"]["code"].update(build="0" * 64)))
    assert found.text.startswith("tvmake's own code: that of build")
    assert found.stages == {"build"}


def test_a_faster_record_that_came_since_is_named_and_blamed_for_nothing(run: Plan, store: RecordStore):
    fill(store, record(7, ms=0.25))
    (found,) = differences(run, read_lock(LOCK))
    assert found.text == (
        f"records of conv ({WORKLOADS[0][:12]}…): a faster one came since (0.25 ms, the lock's 0.5 ms is used)"
    )
    assert found.stages == frozenset()


def test_a_record_that_was_found_wrong_since_or_is_not_here_is_named(run: Plan, store: RecordStore):
    store.append(CONTEXT, WORKLOADS[0], [verdict(BEST, right=False)])
    (found,) = differences(run, read_lock(LOCK))
    assert "was found wrong since" in found.text
    (store.journal(CONTEXT, WORKLOADS[0]).path).unlink()
    (found,) = differences(run, read_lock(LOCK))
    assert f"the one used, {BEST.digest[:12]}…, is not in {store.root}" in found.text
    assert "pick_best" in found.stages


# --- after the build ------------------------------------------------------------------------------------------------


def test_equal_files_are_counted_and_reported_from_fresh_ones(run: Plan):
    locked = read_lock(LOCK)
    before = modification_times(run)
    Path("results/digits/model.json").touch()
    assert compare(run, locked, before) == Outcome(equal=len(locked.artifacts), fresh=1, wrong=[])


def test_the_first_file_in_the_order_of_the_pipeline_is_named_with_its_key(run: Plan):
    manifest = Path("results/digits/float32/cpu/mod.json")
    manifest.write_text(manifest.read_text().replace('"model": "digits"', '"model": "other"'))
    signature = Path("results/digits/signature.json")
    signature.write_text(json.dumps({"inputs": ["signature.json"], "outputs": ["more"]}))
    first, second = mismatches(run, read_lock(LOCK).artifacts)
    assert first == Mismatch("import", "digits/signature.json", "differs in key outputs")
    assert (second.path, second.how) == ("digits/float32/cpu/mod.json", "differs in key model, and 2 more")


def test_a_package_that_differs_is_named_with_its_member(run: Plan, library: bytes):
    from tests.provenance.examples import make_package

    package = Path("results/digits/float32/cpu/package.tar")
    kept = {file: file.read_bytes() for file in package.parent.glob("mod.*")}
    make_package(package, library, ("digits", "float32", "cpu"), weights=b"other weights")
    for file, data in kept.items():
        file.write_bytes(data)
    first, *_ = mismatches(run, read_lock(LOCK).artifacts)
    assert (first.stage, first.how) == ("export", "differs in member mod.params")


def test_missing_and_additional_files_are_named(run: Plan):
    Path("results/digits/float32/cpu/sources/lib0.ll").rename("results/digits/float32/cpu/sources/lib1.ll")
    missing, more = mismatches(run, read_lock(LOCK).artifacts)
    assert (missing.path, missing.how) == ("digits/float32/cpu/sources/lib0.ll", "is missing")
    assert (more.path, more.how) == ("digits/float32/cpu/sources/lib1.ll", "is not in the lock")


def test_the_error_names_the_file_and_the_likely_cause(run: Plan):
    wrong = [Mismatch("build", "digits/float32/cpu/mod.so", "differs")]
    flag = Difference("config build.opt_level: 2 (3 in the lock)", frozenset({"build"}))
    other = Difference("version of onnx: 2 (1 in the lock)", frozenset({"import"}))
    error = explain(run, Outcome(21, 3, wrong), [flag, other], LOCK)
    assert str(error) == (
        "results/digits/float32/cpu/mod.so: differs; it is the first of 1 of 22 files that are not as in run.lock\n"
        "  likely because of config build.opt_level: 2 (3 in the lock)"
    )
    assert "--forceall" in str(explain(run, Outcome(21, 0, wrong), [], LOCK))
    assert "may not be reproducible" in str(explain(run, Outcome(21, 3, wrong), [other], LOCK))


def test_a_lock_is_written_again_the_same_after_a_rebuild(run: Plan):
    before = LOCK.read_bytes()
    assert lock(run).read_bytes() == before
