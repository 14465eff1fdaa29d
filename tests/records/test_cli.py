"""`tvmake records …` as a user meets it."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from tests.records.examples import (
    CONTEXT,
    CONV,
    DENSE,
    DEVICE,
    OLD_CONTEXT,
    OTHER_CONTEXT,
    digests,
    files,
    record,
    verdict,
)
from tvmake.cli import run
from tvmake.records.record import Comparison
from tvmake.records.store import RecordStore
from tvmake.storage.shared_directory import open_directory

FIXED = "a" * 7 + "1" + "0" * 56
TWIN = "a" * 7 + "1" + "1" * 56


@pytest.fixture
def tvmake(store, capsys):
    """Run `tvmake records …` on the store; gives exit code, output, errors."""

    def call(*arguments, on=store) -> tuple[int, str, str]:
        code = run(["records", *map(str, arguments), "--store", str(on.root)])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return call


@pytest.fixture
def filled(store):
    wrong = record(3, ms=0.25)
    made = [record(1, ms=4), record(2, ms=2), wrong, record(4, ms=None), record(5, ms=None, status="timeout")]
    store.append(CONTEXT, CONV, [*made, verdict(record(2, ms=2), True), verdict(wrong, False, reason="outputs differ")])
    store.define(CONTEXT, CONV, {"name": "fused_conv2d", "module": "…"})
    store.append(CONTEXT, DENSE, [record(6, ms=3)])
    store.append(OLD_CONTEXT, FIXED, [record(7)])
    return store


def test_nothing_there_is_said_and_no_error(tvmake, store):
    for command in ("list", "show"):
        code, out, _ = tvmake(command)
        assert (code, out.strip()) == (0, f"no records in {store.root}")
        assert json.loads(tvmake(command, "--json")[1]) == []
    assert tvmake("verify")[0] == 0


def test_list_shows_each_context_with_its_counts(tvmake, filled):
    code, out, _ = tvmake("list")
    assert code == 0
    (line,) = [line for line in out.splitlines() if CONTEXT.digest[:12] in line]
    assert line.split()[-10:-6] == ["2", "6", "3", "2026-03-01"]
    assert line.endswith("1 wrong_output, 1 run_error, 1 timeout")
    assert "llvm test" in line
    rows = json.loads(tvmake("list", "--json")[1])
    assert [row["place"] for row in rows] == [OLD_CONTEXT.digest, CONTEXT.digest]
    assert rows[1]["trials"] == {"ok": 3, "run_error": 1, "timeout": 1, "wrong_output": 1}


def test_show_without_a_workload_gives_the_median_of_the_best_right_record_and_the_trials_by_outcome(tvmake, filled):
    rows = json.loads(tvmake("show", "--place", CONTEXT.digest[:8], "--json")[1])
    assert [(row["workload"], row["latency_ms"]) for row in rows] == [
        (DENSE, pytest.approx(3)),
        (CONV, pytest.approx(2)),
    ]
    assert rows[1]["name"] == "fused_conv2d"
    assert rows[1]["best"] == record(2, ms=2).digest
    assert rows[1]["trials"] == {"ok": 2, "wrong_output": 1, "run_error": 1, "timeout": 1}
    code, out, _ = tvmake("show")
    assert code == 0
    (line,) = [line for line in out.splitlines() if "fused_conv2d" in line]
    assert "1 wrong_output" in line


def test_tables_give_four_digits_dates_in_utc_and_the_trial_that_found_a_record(tvmake, store):
    store.append(CONTEXT, CONV, [record(1, ms=None), record(2, ms=0.00131, at="2026-03-01T23:30:00-01:00")])
    (line,) = [line for line in tvmake("show")[1].splitlines() if line.startswith(CONV[:12])]
    assert line.split()[2:6] == ["0.001310", "2", "1", "2026-03-02"]
    (line,) = [
        line
        for line in tvmake("show", CONV)[1].splitlines()
        if line.startswith(record(2, ms=0.00131, at="2026-03-01T23:30:00-01:00").digest[:12])
    ]
    assert line.split()[1:] == [
        "2",
        "0.001310",
        "0.001179",
        "0.001441",
        "evolutionary",
        "2026-03-02",
        "00:30",
        "not",
        "checked",
    ]


def test_show_takes_prefixes_and_a_generation(tvmake, filled):
    assert [row["workload"] for row in json.loads(tvmake("show", "CCCCCCCC", "--json")[1])] == [CONV]
    assert [row["workload"] for row in json.loads(tvmake("show", "--generation", "tvm-0.19.0", "--json")[1])] == [FIXED]


@pytest.mark.parametrize(
    ("prefix", "exit_code", "problem"),
    [
        ("ccccccc", 2, "does not name a workload"),
        ("conv2d_add", 2, "does not name a workload"),
        ("0123456789", 1, "begins with these digits"),
        ("aaaaaaa1", 1, "2 workloads begin with these digits"),
    ],
)
def test_a_prefix_that_names_no_workload_is_one_clear_error(tvmake, filled, prefix, exit_code, problem):
    filled.append(CONTEXT, TWIN, [record(8)])
    code, out, err = tvmake("show", prefix)
    assert (code, out) == (exit_code, "")
    assert err.startswith(f"error: {prefix}: ")
    assert problem in err


def test_show_gives_the_best_records_and_why_others_failed(tvmake, filled):
    code, out, _ = tvmake("show", CONV[:8], "-n", 1)
    assert code == 0
    assert record(2, ms=2).digest[:12] in out
    assert record(1, ms=4).digest[:12] not in out
    assert "outputs differ" in out
    assert "1x run_error: the kernel crashed" in out
    (found,) = json.loads(tvmake("show", CONV, "--json")[1])
    assert [one["record"] for one in found["records"]] == digests([record(2, ms=2), record(1, ms=4)])
    assert found["records"][0]["trace"] == record(2).trace
    assert found["records"][0]["verdict"]["right"] is True


def test_show_has_what_was_timed_again_and_the_record_first_that_packages_take(tvmake, filled):
    taken = record(1, ms=4)
    samples = {taken.digest: (3e-3, 1e-3), record(2, ms=2).digest: (2e-3,)}
    filled.append(CONTEXT, CONV, [Comparison(samples_s=samples, compared_at="2026-07-01", device=DEVICE)])
    (found,) = json.loads(tvmake("show", CONV, "--json")[1])
    assert found["records"][0]["record"] == taken.digest
    assert found["records"][0]["compared_ms"] == [3.0, 1.0]
    assert "again, min ms" in tvmake("show", CONV)[1]


def test_show_names_every_context_of_a_workload(tvmake, filled):
    filled.append(OTHER_CONTEXT, CONV, [record(9)])
    assert len(json.loads(tvmake("show", CONV, "--json")[1])) == 2
    assert len(json.loads(tvmake("show", CONV, "--place", OTHER_CONTEXT.digest, "--json")[1])) == 1


def test_names_and_errors_of_others_do_not_reach_the_terminal_as_commands(tvmake, store):
    store.append(CONTEXT, CONV, [record(1), record(2, ms=None, error="\x1b]0;title\x07[red]bold[/red]\x1b[2J")])
    store.define(CONTEXT, CONV, {"name": "\x1b[31m[bold]name"})
    for command in (["show"], ["show", CONV]):
        code, out, _ = tvmake(*command)
        assert code == 0
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "[bold]name" in out


def test_export_and_import_carry_a_workload_to_another_store(tvmake, filled, another_store, tmp_path):
    file = tmp_path / "conv.jsonl.gz"
    code, out, _ = tvmake("export", file, "--workload", CONV[:10])
    assert (code, out.strip()) == (0, f"{file}: 7 lines of 1 workload")
    code, out, _ = tvmake("import", file, on=another_store)
    assert code == 0
    assert "7 new lines of 1 workload, 0 already known" in out
    assert digests(another_store.load(CONTEXT, CONV)) == digests(filled.load(CONTEXT, CONV))
    assert "0 new lines of 1 workload, 7 already known" in tvmake("import", file, on=another_store)[1]


def test_an_import_says_which_lines_it_set_aside_and_which_generations_are_others(
    tvmake, filled, another_store, tmp_path
):
    path = filled.journal(CONTEXT, CONV).path
    path.write_bytes(path.read_bytes().replace(b"evolutionary", b"revolution!!", 1))
    code, _, err = tvmake("import", filled.root, on=another_store)
    assert code == 0
    assert "warning: 1 line set aside: differs from its sha256" in err
    assert (
        f"tvm-0.19.0, tvm-0.27.0; they are stored separately and not used by tvm-{metadata.version('apache-tvm')}"
        in err
    )


def test_an_export_of_nothing_is_refused(tvmake, store, tmp_path):
    code, _, err = tvmake("export", tmp_path / "file")
    assert code == 1
    assert "has no such records" in err
    assert not (tmp_path / "file").exists()


def test_prune_says_what_it_would_drop_and_does_it_with_apply(tvmake, filled):
    before = files(filled.root)
    code, out, _ = tvmake("prune", "--keep-best", 1, "--failures-before", "2030-01-01")
    assert code == 0
    assert "4 records would be dropped" in out
    assert files(filled.root) == before
    code, out, _ = tvmake("prune", "--keep-best", 1, "--failures-before", "2030-01-01", "--apply")
    assert "4 records dropped" in out
    assert digests(filled.load(CONTEXT, CONV)) == digests([record(2, ms=2)])


def test_prune_of_other_generations_keeps_the_installed_ones(tvmake, store):
    installed = CONTEXT.model_copy(update={"generation": f"tvm-{metadata.version('apache-tvm')}"})
    store.append(installed, CONV, [record(1)])
    store.append(OLD_CONTEXT, CONV, [record(1)])
    assert tvmake("prune", "--other-generations", "--apply")[0] == 0
    assert store.contexts() == [installed]


def test_prune_without_a_rule_is_a_usage_error(tvmake, filled):
    code, _, err = tvmake("prune", "--apply")
    assert code == 2
    assert "no rule for records to drop" in err


INSTALLED = CONTEXT.model_copy(update={"generation": f"tvm-{metadata.version('apache-tvm')}"})


@pytest.fixture
def pushed(tvmake, store, url) -> str:
    """A shared store with the records of one context of the installed TVM."""
    store.append(INSTALLED, CONV, [record(1), record(2, ms=None), verdict(record(1), True)])
    store.define(INSTALLED, CONV, {"name": "conv", "module": "text"})
    store.append(INSTALLED, DENSE, [record(3)])
    store.append(OLD_CONTEXT, FIXED, [record(7)])
    code, out, err = tvmake("push", "--shared", url)
    assert (code, err) == (0, "")
    assert out == f"{url} from {store.root}: 4 new lines in 2 segments; 1 context\n"
    return url


def test_push_and_pull_carry_the_installed_generations_records_to_a_machine_that_knows_none(
    tvmake, store, another_store, pushed
):
    code, out, err = tvmake("pull", "--shared", pushed, on=another_store)
    assert (code, err) == (0, "")
    assert out == f"{another_store.root} from {pushed}: 4 new lines in 2 segments; 1 context\n"
    assert another_store.contexts() == [INSTALLED]
    for workload in (CONV, DENSE):
        assert digests(another_store.load(INSTALLED, workload)) == digests(store.load(INSTALLED, workload))
    assert ": 0 new lines in 0 segments" in tvmake("pull", "--shared", pushed, on=another_store)[1]
    assert ": 0 new lines in 0 segments" in tvmake("push", "--shared", pushed)[1]


def test_another_generation_is_exchanged_where_it_is_asked_for(tvmake, another_store, pushed):
    old = ["--shared", pushed, "--generation", OLD_CONTEXT.generation]
    assert ": 1 new line" in tvmake("push", *old)[1]
    assert ": 1 new line" in tvmake("pull", *old, on=another_store)[1]
    assert another_store.contexts() == [OLD_CONTEXT]


def test_a_pull_names_a_damaged_segment_and_brings_the_rest(tvmake, another_store, pushed):
    there = open_directory(pushed)
    damaged, *_ = sorted(there.files(INSTALLED.generation))
    there.write(damaged, b"damaged")
    code, out, err = tvmake("pull", "--shared", pushed, on=another_store)
    assert code == 0
    assert ": 1 new line in 1 segment; 1 context" in out
    assert err == f"warning: {damaged}: differs from the sha256 in its name\n"


def test_the_config_names_shared_and_local_stores(store, another_store, tmp_path, capsys, monkeypatch):
    store.append(INSTALLED, CONV, [record(1)])
    config = {
        "models": {"m": {"source": "m.onnx"}},
        "targets": {"cpu": {"kind": "llvm"}, "other": {"kind": "llvm", "tuning": {"store": str(store.root)}}},
        "tuning": {"shared": str(tmp_path / "nfs"), "store": str(another_store.root)},
    }
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tvmake.yaml").write_text(json.dumps(config))
    assert run(["records", "push"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/nfs from {another_store.root}: 0 new lines in 0 segments; 0 contexts",
        f"{tmp_path}/nfs from {store.root}: 1 new line in 1 segment; 1 context",
    ]
    assert run(["records", "pull", "-s", "targets.other.tuning=null"]) == 0
    assert digests(another_store.load(INSTALLED, CONV)) == digests([record(1)])


@pytest.mark.parametrize(
    ("command", "shared", "problem"),
    [
        ("pull", "nope", "no such directory"),
        ("push", "foo://x", "is not an address"),
        ("pull", "foo://x", "is not an address"),
    ],
)
def test_a_shared_store_that_can_be_none_is_refused(tvmake, command, shared, problem):
    code, _, err = tvmake(command, "--shared", shared)
    assert code == 1 and f"error: {shared}: {problem}" in err


def test_without_a_shared_store_pull_and_push_say_how_to_name_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in ("pull", "push"):
        assert run(["records", command]) == 2
        assert "give --shared with a directory or URL" in capsys.readouterr().err
    (tmp_path / "tvmake.yaml").write_text(json.dumps({"models": {"m": {"source": "m.onnx"}}}))
    assert run(["records", "pull"]) == 1
    assert "tvmake.yaml: names no shared store" in capsys.readouterr().err


def test_verify_exits_with_1_and_names_the_line(tvmake, filled):
    assert tvmake("verify")[0] == 0
    path = filled.journal(CONTEXT, CONV).path
    path.write_bytes(path.read_bytes().replace(b"evolutionary", b"revolution!!", 1))
    code, out, _ = tvmake("verify")
    assert code == 1
    assert f"{path}: line 1 differs from its sha256" in out
    code, out, _ = tvmake("verify", "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["store"], found["workloads"], found["records"]) == (str(filled.root), 3, 6)
    assert [finding["file"] for finding in found["findings"]] == [str(path)]
    assert found["findings"][0]["problem"].startswith("line 1 differs")


def test_what_an_export_and_an_import_did_is_there_for_programs(tvmake, filled, another_store, tmp_path):
    file = tmp_path / "out.jsonl.gz"
    assert json.loads(tvmake("export", file, "--json")[1])["workloads"] == 3
    for fresh, arguments in ((True, ("import", file)), (False, ("import", filled.root))):
        code, out, err = tvmake(*arguments, "--json", on=another_store)
        found = json.loads(out)
        assert (code, err, found["source"], found["set_aside"]) == (0, "", str(arguments[1]), [])
        assert (found["new"] > 0, found["known"] > 0) == (fresh, not fresh)
    shared = tmp_path / "shared"
    (row,) = json.loads(tvmake("push", "--shared", shared, "--json")[1])
    assert (row["shared"], row["store"], row["left_out"]) == (str(shared), str(filled.root), [])


def test_a_store_that_is_a_file_is_one_clear_error(tvmake, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = tvmake("list", on=RecordStore(tmp_path / "file"))
    assert code == 1
    assert "is not a directory" in err


def test_help_loads_nothing_heavy():
    heavy = "{'tvm', 'torch', 'fsspec', 'botocore', 'tvmake.records.store'}"
    script = (
        f"import sys; from tvmake.cli import run; run(['records', '--help']); print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
