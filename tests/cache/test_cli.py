"""``tvmake cache …``"""

import json
import os

import pytest

from tests.cache.examples import Run, entry_of, point_at
from tvmake.cache.prepare import prepare_cache
from tvmake.cli import run as tvmake
from tvmake.config.cache import CacheConfig
from tvmake.errors import InputError, MachineError


@pytest.fixture
def filled(cache, tmp_path, capsys) -> list[Run]:
    """Three entries, the first used last."""
    runs = [Run(tmp_path / str(seed), seed=seed) for seed in range(3)]
    for number, run in enumerate(runs):
        run.step()
        os.utime(entry_of(cache, run), (1_000_000_000 + number, 1_000_000_000 + number))
    os.utime(entry_of(cache, runs[0]), (1_000_000_100, 1_000_000_100))
    capsys.readouterr()
    return runs


def test_info_says_how_much_there_is_and_of_what(cache, filled, capsys):
    assert tvmake(["cache", "info", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["cache"] == str(cache)
    assert (known["entries"], known["unusable"]) == (3, 0)
    assert known["stages"]["extract"]["entries"] == 3
    assert known["size_limit_bytes"] == 10**10
    assert known["bytes"] == sum(entry_of(cache, run).stat().st_size for run in filled)
    assert tvmake(["cache", "info"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{cache}: 3 entries, ")
    assert "limit 10.0 GB" in shown and "extract" in shown


def test_info_of_a_key_says_what_the_entry_was_made_of(filled, capsys):
    assert tvmake(["cache", "info", filled[1].key[:12]]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["key"] == filled[1].key
    assert [role for role, _ in known["material"]["inputs"]] == ["module", "signature"]
    for unknown in ("0" * 64, filled[1].key[:4]):
        assert tvmake(["cache", "info", unknown]) == 1
        assert "no key begins with" in capsys.readouterr().err


def test_verify_finds_and_removes_bad_entries(cache, filled, capsys):
    assert tvmake(["cache", "verify"]) == 0
    assert "3 entries are intact" in capsys.readouterr().out
    entry = entry_of(cache, filled[0])
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.write_bytes(data)
    assert tvmake(["cache", "verify"]) == 1
    said = capsys.readouterr()
    assert said.out == f"{cache}: 2 entries are intact, 1 is bad (removed)\n"
    assert (
        said.err == f"{filled[0].key}: workloads/empty.json is altered: its sha256 differs\n" or "altered" in said.err
    )
    assert tvmake(["cache", "verify"]) == 0
    assert "2 entries are intact" in capsys.readouterr().out


def test_what_is_bad_or_removed_is_there_for_programs(cache, filled, capsys):
    entry_of(cache, filled[0]).write_bytes(b"")
    assert tvmake(["cache", "verify", "--json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (said.err, found["intact"], found["removed"]) == ("", 2, True)
    assert [row["key"] for row in found["bad"]] == [filled[0].key]
    size = entry_of(cache, filled[1]).stat().st_size
    assert tvmake(["cache", "prune", "--size-limit", f"{size + 10}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["removed"]["entries"], found["left"]) == (1, {"entries": 1, "bytes": found["left"]["bytes"]})
    assert tvmake(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"]["entries"] == 1


def test_verify_of_a_read_only_cache_changes_nothing(cache, filled, capsys, monkeypatch):
    entry_of(cache, filled[0]).write_bytes(b"")
    point_at(monkeypatch, CacheConfig(where=str(cache), read_only=True))
    assert tvmake(["cache", "verify"]) == 1
    assert "left in place" in capsys.readouterr().out
    assert entry_of(cache, filled[0]).exists()


def test_a_read_only_cache_is_not_tidied_up_unless_it_is_named(cache, filled, capsys, monkeypatch):
    point_at(monkeypatch, CacheConfig(where=str(cache), read_only=True))
    for command in ("prune", "clear"):
        assert tvmake(["cache", command]) == 2
        assert "it is configured as read-only" in capsys.readouterr().err
    assert len(list((cache / "entries").iterdir())) == 3
    assert tvmake(["cache", "clear", "--cache", str(cache)]) == 0


def test_prune_keeps_what_was_used_last(cache, filled, capsys):
    size = entry_of(cache, filled[0]).stat().st_size
    assert tvmake(["cache", "prune", "--size-limit", f"{size + 10}"]) == 0
    assert "2 entries removed" in capsys.readouterr().out
    assert [path.name for path in (cache / "entries").iterdir()] == [filled[0].key]
    assert tvmake(["cache", "prune"]) == 0
    assert "0 entries removed" in capsys.readouterr().out
    assert tvmake(["cache", "prune", "--unused-days", "30"]) == 0
    assert "1 entry removed" in capsys.readouterr().out
    assert tvmake(["cache", "prune", "--size-limit", "many"]) == 2


def test_clear_removes_every_entry(cache, filled, capsys):
    assert tvmake(["cache", "clear"]) == 0
    assert list((cache / "entries").iterdir()) == []
    assert tvmake(["cache", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["entries"] == 0


def test_the_cache_is_the_one_named_or_the_environments_or_the_configs_or_the_users(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def place(*options: str) -> str:
        assert tvmake(["cache", "info", "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)["cache"]

    assert place() == str(tmp_path / "home" / "cache")
    (tmp_path / "tvmake.yaml").write_text("models: {digits: {source: digits.onnx}}\ncache: /from/config\n")
    assert place() == "/from/config"
    monkeypatch.setenv("TVMAKE_CACHE", "/from/environment")
    assert place() == "/from/environment"
    assert place("--cache", "/named") == "/named"


def test_a_cache_that_cannot_be_reached_is_one_clear_error(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    assert tvmake(["cache", "info", "--cache", str(tmp_path / "file")]) == 1
    assert "is not a directory" in capsys.readouterr().err
    assert tvmake(["cache", "info", "--cache", "nosuch://place"]) == 1
    assert "not an address that fsspec knows" in capsys.readouterr().err


# --- the start of a run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["info", "verify", "prune", "clear"])
@pytest.mark.parametrize("where", ["", "-1", "a\nb"])
def test_a_place_that_can_be_no_cache_is_one_clear_error(capsys, command, where):
    assert tvmake(["cache", command, f"--cache={where}"]) == 2
    assert "error: --cache" in capsys.readouterr().err


def test_a_run_says_once_that_its_cache_cannot_be_written_and_continues_without_storing(tmp_path, run, capsys):
    (tmp_path / "file").write_text("")
    prepare_cache(CacheConfig(where=str(tmp_path / "file" / "cache")), is_wanted=True)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"warning: cache {tmp_path}/file/cache: cannot be written (")
    assert said[1].strip() == "make it writable, set cache.read_only, or use --no-cache"
    assert len(said) == 2
    assert not run.step()
    assert capsys.readouterr().err == ""


def test_a_run_with_a_place_that_can_be_no_cache_does_not_start(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a directory"):
        prepare_cache(CacheConfig(where=str(tmp_path / "file")), is_wanted=True)
    monkeypatch.delenv("TVMAKE_CACHE")
    with pytest.raises(MachineError, match="cannot be read"):
        prepare_cache(CacheConfig(secret_file=str(tmp_path / "none")), is_wanted=True)
    monkeypatch.setenv("TVMAKE_CACHE", "{broken")
    with pytest.raises(InputError, match="TVMAKE_CACHE"):
        prepare_cache(None, is_wanted=True)


def test_no_cache_is_stronger_than_config_and_environment(tmp_path, monkeypatch, run):
    monkeypatch.setenv("TVMAKE_CACHE", str(tmp_path / "cache"))
    prepare_cache(None, is_wanted=False)
    assert os.environ["TVMAKE_CACHE"] == "off"
    run.step()
    assert not (tmp_path / "cache").exists()
