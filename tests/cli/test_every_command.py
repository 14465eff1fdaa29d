"""Properties of every command: -v and -q, --json for each table, and shell completion."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from tests.patience import HANG_S
from tests.workflow.project import ROOT
from tvmake.cli import run
from tvmake.cli.app import ELSEWHERE, GROUPS, command
from tvmake.cli.help import EXAMPLES, TOPICS
from tvmake.config.reading.load import check
from tvmake.quantize.precision import BasePrecision

TABLES = (
    "check", "clean", "run", "diff", "status", "explain", "logs", "debug", "tune", "targets", "doctor", "cache info",
    "device list", "device info", "device push", "device selftest", "records list",
    "records show", "records prune", "records verify", "records export", "records import", "records pull",
    "records push", "runtime list", "cache verify", "cache prune", "cache clear", "verify", "sign", "lock", "report",
    "bundle export", "bundle import", "pack", "show",
)  # fmt: skip
"""The commands that print tables or facts for programs."""

TVMAKE = str(Path(sys.executable).with_name("tvmake"))

CONFIG = "models: {net: {source: 'zoo:resnet18'}}\ntargets: {cpu: {kind: llvm}}\n"


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, below in group.commands.items():
        if name == "step":  # what rules call
            continue
        if getattr(below, "commands", None):
            yield from commands(below, f"{path}{name} ")
        else:
            yield f"{path}{name}", below


COMMANDS = dict(commands(command()))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_more_or_less_on_request(name: str):
    options = [option for parameter in COMMANDS[name].params for option in parameter.opts]
    assert options.count("--verbose") == options.count("-v") == 1
    assert options.count("--quiet") == options.count("-q") == 1


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_there_for_programs(name: str):
    assert "--json" in [option for parameter in COMMANDS[name].params for option in parameter.opts]


def test_no_other_command_makes_a_table():
    """A new command with a table needs --json and an entry in the list above."""
    offering = {
        name for name, found in COMMANDS.items() if any("--json" in parameter.opts for parameter in found.params)
    }
    assert offering == set(TABLES)


def test_verbose_names_the_config_and_the_origin_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("tvmake.yaml").write_text(CONFIG)
    assert run(["explain", "nothing.txt", "-v"]) == 1
    errors = capsys.readouterr().err
    assert "config: tvmake.yaml" in errors
    assert "Traceback" in errors
    assert run(["explain", "nothing.txt"]) == 1
    errors = capsys.readouterr().err
    assert "config:" not in errors
    assert "Traceback" not in errors


def test_a_plan_is_printed_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("tvmake.yaml").write_text(CONFIG)
    assert run(["check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["variants"] == [{"model": "net", "precision": "float32", "target": "cpu", "device": "local"}]
    assert "results/net/float32/cpu/package.tar" in found["files"]
    assert run(["check"]) == 0
    assert "1 variant of 1 model, 1 to run on a device" in capsys.readouterr().out
    assert run(["clean", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removable"] == []


# --- completion -------------------------------------------------------------------------------------------------------


def completed(words: str, path: Path) -> list[str]:
    """The shell's completions after these words."""
    environment = {
        **os.environ,
        "_TVMAKE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [TVMAKE],
        cwd=path, env=environment, capture_output=True, text=True, check=False, timeout=HANG_S,
    )  # fmt: skip
    return done.stdout.split()


def test_commands_options_targets_and_variants_are_completed(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(CONFIG)
    assert {"compile", "completion"} <= set(completed("tvmake comp", tmp_path))
    assert "--print-top" in completed("tvmake run --print", tmp_path)
    assert "adreno-730-texture" in completed("tvmake compile m.onnx -t adreno-7", tmp_path)
    assert completed("tvmake logs n", tmp_path) == ["net/float32/cpu"]
    assert "tvmake.yaml" in completed("tvmake explain tvm", tmp_path)


def test_nothing_is_completed_from_a_config_that_is_wrong(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text("models: 3\n")
    assert completed("tvmake logs n", tmp_path) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, tmp_path: Path):
    done = subprocess.run(
        [TVMAKE, "completion", shell],
        capture_output=True, text=True, check=False, timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"_TVMAKE_COMPLETE=complete_{shell}" in done.stdout


def test_bash_takes_the_script_and_completes(tmp_path: Path):
    script = f"""source <({TVMAKE} completion bash)
COMP_WORDS=(tvmake comp); COMP_CWORD=1
_tvmake_completion {TVMAKE}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert set(done.stdout.split()) == {"compile", "completion"}, done.stderr


def test_help_lists_each_command_once_on_one_screen(capsys: pytest.CaptureFixture[str]):
    names = [name for commands in GROUPS.values() for name in commands]
    assert sorted(names) == sorted(command().commands)
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 48 and max(map(len, lines)) <= 80


def test_every_example_is_a_command_with_its_options():
    root = command()
    assert EXAMPLES.keys() <= root.commands.keys()
    for name, example in EXAMPLES.items():
        program, first, *words = example.partition(" > ")[0].split()
        known = {option for parameter in root.commands[name].params for option in parameter.opts}
        assert (program, first) == ("tvmake", name)
        assert {word for word in words if word.startswith("-")} <= known
        assert root.commands[name].epilog == f"Example: {example}"


@pytest.mark.parametrize("typed", [[], ["compile"], ["device", "list"], *([topic] for topic in TOPICS)])
def test_help_shows_commands_and_topics_on_one_screen(typed: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(["help", *typed]) == 0
    lines = capsys.readouterr().out.splitlines()
    topic = TOPICS.get(" ".join(typed))
    assert lines[0] == (
        topic.splitlines()[0]
        if topic
        else " ".join(["Usage: tvmake", *typed, "[OPTIONS]"]) + lines[0].partition("[OPTIONS]")[2]
    )
    if topic:
        assert len(lines) <= 24


def test_help_of_something_unknown_names_the_topics(capsys: pytest.CaptureFixture[str]):
    assert run(["help", "rooms"]) == 2
    assert (
        "error: tvmake help rooms: no such command or topic\n  topics are targets, precisions, devices"
        in capsys.readouterr().err
    )


def test_configs_in_topics_are_right_and_the_files_exist():
    model = {"models": {"net": {"source": "net.onnx"}}}
    keys: dict = {}
    for topic in TOPICS.values():
        if "In a config:" in topic:
            keys |= yaml.safe_load(topic.partition("In a config:")[2].rpartition("\n\n")[0])
        for page in re.findall(r"docs/[\w/-]+\.md", topic):
            assert (ROOT / page).is_file()
    check({**model, **keys}, {})
    assert set(re.findall(r"^  (\w+) +", TOPICS["precisions"], re.MULTILINE)) == set(get_args(BasePrecision))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_other_programs_call_a_command_is_pointed_to(name: str, capsys: pytest.CaptureFixture[str]):
    assert run([name, "-x"]) == 2
    assert f"error: tvmake {name}: there is no such command\n  {ELSEWHERE[name]}" in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_closed_standard_streams_are_accepted(tmp_path: Path, closed: str):
    (tmp_path / "tvmake.yaml").write_text(CONFIG)
    line = f"exec {TVMAKE} status {closed}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == "" if closed.startswith(">") else "1 variant: 1 missing" in done.stdout


def test_a_directory_that_is_deleted_is_named_as_that(tmp_path: Path):
    line = f"cd {tmp_path} && rmdir {tmp_path} && exec {TVMAKE} status"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 3
    assert done.stderr == "error: the working directory was deleted\n  change to another one, as with `cd ~`\n"


WRITERS = (
    "run none.tar -o", "init none.onnx -o", "lock -o", "compile none.onnx -o", "device selftest -o",
    "runtime build aarch64-linux-musl -o", "pack a=none.tar -o",
)  # fmt: skip
"""The commands with an option for an output file."""


@pytest.mark.parametrize("arguments", [*WRITERS, "bundle export", "records export"])
@pytest.mark.parametrize("path", ["out/", "there/", "."])
def test_a_file_to_write_is_not_named_as_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, path: str
):
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    assert run([*arguments.split(), path]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path}: is a directory, but a file is required\n")
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


def test_a_dash_is_refused_as_output_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert run(["compile", "none.onnx", "-o", "-"]) == 1
    assert (
        capsys.readouterr().err == "error: -: cannot write to standard output\n  name a file (./- is a file named -)\n"
    )


@pytest.mark.parametrize("command", ["make", "check"])
def test_a_missing_working_directory_is_distinguished_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
):
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").touch()
    assert run([command, "-d", "net.onnx"]) == 1
    assert capsys.readouterr().err == "error: net.onnx: is not a directory\n  name the directory that contains it: .\n"
    assert run([command, "-d", "nowhere"]) == 1
    assert capsys.readouterr().err.startswith("error: nowhere: no such directory\n  name an existing directory")


def test_the_commands_that_write_a_file_are_known():
    """A new command parses its option like the others, and is in the list above."""
    writing = {
        name
        for name, found in COMMANDS.items()
        if any({"-o", "--output"} & {*parameter.opts} for parameter in found.params)
    }
    assert {next(name for name in writing if each.startswith(f"{name} ")) for each in WRITERS} == writing


@pytest.mark.parametrize("text", ["Größe", "\x9b31m", "\u202eevil", "\udcff"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso-8859-9"])
def test_json_can_be_read_whatever_it_holds_and_wherever_it_is_printed(text: str, encoding: str):
    """Control characters, and letters that a locale lacks, are written as JSON escapes, not as Python's."""
    script = (
        "import sys; from tvmake.cli.terminal import print_json; from tvmake.process.output import escape_output\n"
        f"with escape_output(): print_json([{text!a}])"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, timeout=HANG_S, check=True
    )
    assert json.loads(done.stdout.decode(encoding)) == [text]


@pytest.mark.parametrize("key", ["models: {a: {source: größe.onnx}}", "models: {a: {source: a.onnx}}\nresults: größe"])
def test_a_name_that_the_locale_cannot_write_is_named_with_what_helps(key: str, tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(key)
    (tmp_path / "a.onnx").touch()
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [Path(sys.executable).with_name("tvmake"), "check"],
        cwd=tmp_path,
        env={**os.environ, **plain},
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 1
    assert b"set LC_ALL=C.UTF-8\n" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["rich", "typer", "pydantic", "filelock"])
def test_a_library_without_files_is_named_with_what_restores_it(module: str, tmp_path: Path):
    script = f"import sys; sys.modules[{module!r}] = None; from tvmake.cli import run; sys.exit(run(['doctor']))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    remedy = f"  pip install --force-reinstall --no-deps '{module}=={metadata.version(module)}'\n"
    assert done.returncode == 3
    assert done.stderr == f"error: tvmake: files of its library {module} are missing\n{remedy}"
