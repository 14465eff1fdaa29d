"""A step with the cache in front: what it takes, what it stores, and that nothing wrong with the cache fails it."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.cache.examples import Run, entry_of, point_at
from tests.workflow.test_faults import small_disk
from tvmake.cache import step as steps
from tvmake.cache.line import read_lines
from tvmake.config.cache import CacheConfig
from tvmake.errors import InputError, MachineError


def lines(capsys) -> list:
    return read_lines(capsys.readouterr().out)


def test_what_one_checkout_made_another_takes_with_the_same_bytes(cache, run, again, capsys):
    assert not run.step()
    (made,) = lines(capsys)
    assert (made.cache, made.stage, made.key, made.stored) == ("miss", "extract", run.key, True)
    assert again.step()
    assert again.ran == 0
    out = capsys.readouterr().out
    assert f"taken from the cache {run.key}" in out
    (taken,) = read_lines(out)
    assert (taken.cache, taken.bytes) == ("hit", sum(map(len, run.expected.values())))


def test_outputs_that_are_there_already_are_replaced(cache, run, again):
    run.step()
    stale = again.directory / "out" / "workloads" / "stale.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    (again.directory / "out" / "tasks.json").write_text("old")
    assert again.step()
    assert not stale.exists()


def test_outputs_from_the_cache_have_the_rights_that_the_stage_would_give(cache, run, again):
    run.step()
    again.step()
    for name in run.expected:
        assert (again.directory / "out" / name).stat().st_mode == (run.directory / "out" / name).stat().st_mode


def test_another_input_is_another_result(cache, run, tmp_path):
    run.step()
    assert not Run(tmp_path / "three", seed=3).step()


def test_without_a_cache_the_stage_runs_and_nothing_is_kept_or_said(tmp_path, run, monkeypatch, capsys):
    for value in ("off", "", "OFF", "0"):
        monkeypatch.setenv("TVMAKE_CACHE", value)
        assert not run.step()
    monkeypatch.delenv("TVMAKE_CACHE")
    assert not run.step()
    assert run.ran == 5
    assert capsys.readouterr() == ("", "")


def test_the_users_own_cache_is_in_tvmakes_home(tmp_path, run, again, monkeypatch):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TVMAKE_CACHE", "on")
    assert not run.step()
    assert again.step()
    assert entry_of(tmp_path / "home" / "cache", run).is_file()


def test_a_read_only_cache_gives_and_does_not_take(cache, run, again, tmp_path, monkeypatch):
    run.step()
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    point_at(monkeypatch, CacheConfig(where=str(cache), read_only=True))
    assert again.step()
    assert not Run(tmp_path / "three", seed=3).step()
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before


def test_a_bad_entry_in_a_read_only_cache_is_named_and_left_and_the_stage_runs(cache, run, again, monkeypatch, capsys):
    run.step()
    entry = entry_of(cache, run)
    entry.write_bytes(entry.read_bytes()[:-1])
    point_at(monkeypatch, CacheConfig(where=str(cache), read_only=True))
    capsys.readouterr()
    assert not again.step()
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "is not used" in said.err and "left in place: the cache is read-only" in said.err
    assert read_lines(said.out)[0].cache == "refused"
    assert entry.exists()


def test_a_stage_that_fails_leaves_no_entry(cache, run):
    run.fails = True
    with pytest.raises(RuntimeError):
        run.step()
    assert not cache.exists()


def test_a_result_whose_input_changed_while_the_stage_ran_is_not_stored(cache, run, again, capsys):
    stage = run.stage

    def edits_meanwhile() -> None:
        stage()
        (run.directory / "module.json").write_text('{"edited": true}')

    steps.run_cached(run.work, edits_meanwhile)
    assert "an input changed while the stage ran" in capsys.readouterr().out
    assert not again.step()


def test_a_missing_input_is_the_stages_own_error(cache, run):
    (run.directory / "module.json").unlink()

    def complains() -> None:
        raise InputError("module.json", "no such file")

    with pytest.raises(InputError, match="no such file"):
        steps.run_cached(run.work, complains)


def test_an_output_that_is_not_a_plain_file_is_not_stored(cache, run, capsys):
    stage = run.stage

    def links() -> None:
        stage()
        (run.directory / "out" / "workloads" / "link").symlink_to("/etc/passwd")

    steps.run_cached(run.work, links)
    assert "is neither a file nor a directory of files" in capsys.readouterr().out
    assert not entry_of(cache, run).exists()


def test_a_full_cache_disk_costs_a_warning_and_leaves_nothing_half_stored(tmp_path, run, again, monkeypatch, capsys):
    disk = tmp_path / "disk"
    large = Run(tmp_path / "large", seed=9, size=300_000)
    with small_disk(disk, 100):
        point_at(monkeypatch, CacheConfig(where=str(disk / "cache")))
        assert not large.step()
        said = capsys.readouterr()
        assert said.err == f"warning: cache {disk}/cache: no space left on the disk; the result is not stored\n"
        assert [line.stored for line in read_lines(said.out)] == [False]
        assert list((disk / "cache" / "entries").iterdir()) == []
        assert not run.step()
        assert again.step()
        subprocess.run(["mount", "-o", "remount,size=2000k", disk], check=True)
        assert not large.step()
        assert large.step()


def test_a_full_disk_of_results_is_the_steps_error_and_the_entry_stays_good(tmp_path, cache, monkeypatch):
    large = Run(tmp_path / "large", seed=9, size=300_000)
    large.step()
    with small_disk(tmp_path / "disk", 100):
        elsewhere = Run(tmp_path / "disk" / "two", seed=9, size=300_000)
        with pytest.raises(MachineError, match="no space left"):
            elsewhere.step()
        assert elsewhere.outputs == {}
    assert Run(tmp_path / "three", seed=9, size=300_000).step()


def test_a_cache_that_cannot_be_written_is_read_and_costs_one_warning(tmp_path, run, again, monkeypatch, capsys):
    disk = tmp_path / "disk"
    with small_disk(disk, 500):
        point_at(monkeypatch, CacheConfig(where=str(disk / "cache")))
        run.step()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        capsys.readouterr()
        assert again.step()
        assert capsys.readouterr().err == ""
        assert not Run(tmp_path / "three", seed=3).step()
        said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "cannot be written (Read-only file system)" in said.err and "is not stored" in said.err


@pytest.mark.parametrize("what", ["a file", "below a file", "open to everyone"])
def test_a_place_that_can_be_no_cache_costs_a_warning_and_the_stage_runs(tmp_path, run, monkeypatch, capsys, what):
    directory = tmp_path / "place"
    if what == "open to everyone":
        directory.mkdir()
        directory.chmod(0o777)
    else:
        directory.write_text("")
    point_at(monkeypatch, CacheConfig(where=str(directory / "cache" if what == "below a file" else directory)))
    assert not run.step()
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and said.err.startswith("warning: cache")
    assert Path(directory).exists()


def test_an_environment_that_makes_no_sense_is_one_clear_error(run, monkeypatch):
    for text in ('{"where": 5}', '{"size_limit": "many"}', '{"no_such": 1}', "{broken"):
        monkeypatch.setenv("TVMAKE_CACHE", text)
        with pytest.raises(InputError) as caught:
            run.step()
        assert caught.value.where == "TVMAKE_CACHE"
    assert run.ran == 0


def test_those_who_have_a_secret_take_entries_sealed_with_it_only(cache, run, tmp_path, monkeypatch, capsys):
    def shared(name: str, text: str) -> CacheConfig:
        file = tmp_path / name
        file.write_text(text)
        file.chmod(0o600)
        return CacheConfig(where=str(cache), secret_file=str(file))

    ours, theirs = shared("ours", "0123456789abcdef"), shared("theirs", "fedcba9876543210")
    point_at(monkeypatch, ours)
    assert not run.step()
    assert Run(tmp_path / "two").step()
    point_at(monkeypatch, theirs.model_copy(update={"read_only": True}))
    assert not Run(tmp_path / "three").step()
    assert "another secret" in capsys.readouterr().err
    # Who has none trusts whoever may write, and does not get in the way of the others.
    point_at(monkeypatch, CacheConfig(where=str(cache)))
    assert Run(tmp_path / "four").step()
    assert not Run(tmp_path / "five", seed=5).step()
    point_at(monkeypatch, ours)
    assert Run(tmp_path / "six").step()
    assert not Run(tmp_path / "seven", seed=5).step()
    assert "not sealed with the secret" in capsys.readouterr().err
    assert Run(tmp_path / "eight", seed=5).step()  # sealed now


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [(None, 0o600, "cannot be read"), ("short", 0o600, "16 bytes"), ("x" * 32, 0o644, "everyone")],
)
def test_a_secret_that_is_none_costs_a_warning_and_nothing_is_taken_unchecked(
    cache, run, again, tmp_path, monkeypatch, capsys, text, mode, problem
):
    run.step()
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    monkeypatch.setenv("TVMAKE_CACHE_SECRET_FILE", str(file))
    assert not again.step()
    assert problem in capsys.readouterr().err


def test_what_it_was_made_of_is_in_the_entry_for_people_to_read(cache, run):
    run.step()
    seal, header, *_ = entry_of(cache, run).read_bytes().split(b"\n", 2)
    assert seal == b"tvmake-cache 1 " + hashlib.sha256(header + b"\n").hexdigest().encode() + b" -"
    known = json.loads(header)
    assert known["key"] == run.key
    assert known["material"]["options"]["target"] == {"kind": "llvm", "mcpu": "native"}
    assert known["outputs"]["workloads"]["files"].keys() == {"a.json", "deep/b.json", "empty.json"}
