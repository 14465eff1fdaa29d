"""The files that are made before Snakemake plans again."""

import os
from argparse import Namespace
from pathlib import Path

from tvmake.engine.up_to_date.early_cutoff import first_round, make_in_rounds
from tvmake.engine.up_to_date.outdated import note_outdated
from tvmake.engine.up_to_date.planned_jobs import PlannedJob
from tvmake.storage.notes.job_records import record_job


def job(rule: str, inputs: str, outputs: str) -> PlannedJob:
    return PlannedJob(rule, tuple(inputs.split()), tuple(outputs.split()))


CHAIN = [
    job("import", "net.onnx", "model.json model.params"),
    job("transform", "model.json model.params", "module.json"),
    job("build", "module.json source.json", "mod.so"),
    job("all", "mod.so", ""),
]


def test_a_first_run_takes_no_rounds():
    assert first_round(CHAIN, was_made=lambda file: False) is None


def test_rebuilt_files_come_before_files_that_depend_on_them():
    assert first_round(CHAIN, was_made=lambda file: True) == ["model.json", "model.params"]
    assert first_round(CHAIN[1:], was_made=lambda file: True) == ["module.json"]


def test_the_last_rebuilt_files_need_no_separate_round():
    assert first_round(CHAIN[2:], was_made=lambda file: True) is None


def test_new_results_pass_all_their_stages_meanwhile():
    fresh = [job("import", "new.onnx", "new.json"), job("transform", "new.json", "new-module.json")]
    old = {"model.json", "model.params", "module.json", "mod.so"}
    assert first_round([*CHAIN, *fresh], was_made=old.__contains__) == [
        "model.json", "model.params", "new.json", "new-module.json",
    ]  # fmt: skip


def test_files_behind_a_job_that_lost_one_of_its_own_do_not_wait_for_it():
    left = {"model.json", "mod.so"}
    assert first_round(CHAIN, was_made=left.__contains__) is None


def test_a_file_waits_for_all_rebuilt_files_before_it():
    jobs = [job("budget", "a", "b"), job("tune", "b", "c"), job("pick_best", "c", "d"), job("build", "d e", "f")]
    assert first_round([*jobs, job("transform", "x", "e")], was_made={"b", "e", "f"}.__contains__) == ["b", "e"]


def test_what_fails_in_a_round_does_not_keep_the_rest_from_being_made(tmp_path: Path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    jobs = [
        job("import", "a", str(good)),
        job("import", "b", str(bad)),
        job("transform", f"{good}", str(good) + ".json"),
    ]
    asked: list[Namespace] = []

    def make(part: Namespace) -> bool:
        asked.append(part)
        bad.unlink(missing_ok=True)  # as Snakemake does with the files of a job that fails
        return False

    for keep_going, runs in ((True, 2), (False, 1)):
        good.touch(), bad.touch(), asked.clear()
        args = Namespace(targets=["all"], omit_from=[], keep_going=keep_going)
        assert not make_in_rounds(args, True, lambda _: jobs, make, os.path.exists, is_stopping=lambda: False)
        assert len(asked) == runs and asked[0].targets == [str(good), str(bad)]
    assert args.targets == ["all"]
    assert [one.omit_from for one in asked] == [[]]


def test_jobs_that_are_forced_run_once(tmp_path: Path):
    asked: list[Namespace] = []
    args = Namespace(targets=["all"], forcerun=["build"], keep_going=True)
    assert make_in_rounds(args, True, lambda _: CHAIN, lambda part: not asked.append(part), os.path.exists)
    assert asked == [args]


def test_snakemake_does_not_plan_again_if_nothing_is_left_to_do():
    args = Namespace(targets=["all"], keep_going=True)
    assert make_in_rounds(args, True, lambda _: [], make=lambda _: False, was_made=os.path.exists)


def test_if_snakemake_refuses_to_plan_it_runs_again_to_report_the_reason():
    args = Namespace(targets=["all"], keep_going=True)
    assert not make_in_rounds(args, True, lambda _: None, make=lambda _: False, was_made=os.path.exists)


def test_nothing_starts_after_a_signal_during_planning():
    told, made = [], []

    def interrupted_plan(_: Namespace) -> None:
        told.append("by Ctrl-C")

    args = Namespace(targets=[], keep_going=True)
    assert not make_in_rounds(args, True, interrupted_plan, made.append, os.path.exists, is_stopping=lambda: bool(told))
    assert told and not made


def test_nothing_more_starts_once_the_run_is_stopping():
    asked: list[Namespace] = []
    make = lambda part: not asked.append(part)  # noqa: E731
    args = Namespace(targets=["all"], keep_going=True)
    chain = [job("import", "net.onnx", __file__), job("transform", __file__, "module.json")]
    assert not make_in_rounds(args, True, lambda _: chain, make, os.path.exists, is_stopping=lambda: bool(asked))
    assert len(asked) == 1


def test_altered_results_are_rebuilt_first():
    asked: list[Namespace] = []
    damaged = iter([["module.json"], []])
    args = Namespace(targets=["all"], keep_going=True)
    make = lambda part: not asked.append(part)  # noqa: E731
    assert make_in_rounds(args, False, lambda _: None, make, os.path.exists, lambda: next(damaged))
    assert [(part.targets, getattr(part, "forcerun", None)) for part in asked] == [
        (["module.json"], ["module.json"]), (["all"], None),
    ]  # fmt: skip


def test_a_result_that_stays_altered_is_rebuilt_once():
    asked: list[Namespace] = []
    args = Namespace(targets=["all"], keep_going=True)
    make = lambda part: not asked.append(part)  # noqa: E731
    assert make_in_rounds(args, False, lambda _: None, make, os.path.exists, lambda: ["module.json"])
    assert len(asked) == 2


def test_an_altered_result_that_waits_for_another_one_is_noted_once(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = "module.json", "mod.so"
    for name in (first, second):
        with record_job([], [Path(name)]):
            Path(name).touch()
        Path(name).write_text("altered")
    altered = {first, second}
    make = lambda part: not altered.difference_update(part.targets)  # noqa: E731
    chain = [job("transform", "model.json", first), job("build", first, second)]
    args = Namespace(targets=["all"], keep_going=True)
    left = lambda _: [one for one in chain if altered.intersection(one.outputs)]  # noqa: E731
    assert make_in_rounds(args, False, left, make, os.path.exists, lambda: sorted(altered))
    noted = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert sorted(noted) == sorted([first, second])


def test_results_that_a_stopped_run_took_no_note_of_are_not_called_altered(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with record_job([], [Path("model.json")]):
        Path("model.json").touch()
    names = ["module.json", "mod.so"]
    for name in names:
        Path(name).touch()
    note_outdated(names)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: rebuilding 2 results without a record, such as {names[0]}: a run was stopped")


def test_where_making_an_altered_result_again_fails_the_others_are_made_all_the_same():
    asked: list[Namespace] = []
    args = Namespace(targets=["all"], keep_going=True)

    def make(part: Namespace) -> bool:
        asked.append(part)
        return part.targets == ["all"]

    assert not make_in_rounds(args, False, lambda _: None, make, os.path.exists, lambda: ["no-longer-there.json"])
    assert asked[1].omit_from == ["no-longer-there.json"]
