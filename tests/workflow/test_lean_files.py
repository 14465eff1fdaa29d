"""What ``tvmake make`` knows of a workflow's files is what Snakemake would say of them."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake.io
from hypothesis import given
from hypothesis import strategies as st
from snakemake.exceptions import ProtectedOutputException
from snakemake.io import AnnotatedString, IOCache, _IOFile, flag
from snakemake.iocontainers import InputFiles, Namedlist, Wildcards
from snakemake.logging import logger
from snakemake.pathvars import Pathvars

from tvmake import lean_files

FLAGS = ("temp", "directory", "ancient", "pipe", "checkpoint_target")
"""Some of Snakemake's."""

names = st.lists(
    st.sampled_from(
        ["a", "results", "/", "//", ".", "./", "%", "%s", " ", "\n", "{model}", "{kernel,[a-z]+}", "{}", "{{"]
    ),
    max_size=6,
).map("".join)
wildcards = st.fixed_dictionaries(
    {"model": st.sampled_from(["digits", "100%", "a/b", ""]), "kernel": st.integers(0, 9)}
)
flags = st.dictionaries(st.sampled_from(FLAGS), st.sampled_from([True, False, "value"]), max_size=2)


def rule_of(cache: IOCache | None = None) -> Any:
    """As much of a rule as its files look at."""
    workflow = SimpleNamespace(iocache=cache or IOCache(10))
    return SimpleNamespace(
        workflow=workflow, pathvars=Pathvars.with_defaults(), name="build", lineno=1, snakefile="Snakefile"
    )


def made(name: str, flagged: dict[str, Any], rule: Any) -> Any:
    """A file of a rule, as a workflow declares it."""
    text: Any = name
    for key, value in flagged.items():
        text = flag(text, key, value)
    return _IOFile(text, rule=rule)


def outcome(function: Any, *arguments: Any) -> Any:
    """What it returns, or the kind of what it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001  # compared
        return type(error), str(error)


def seen_of(file: Any) -> Any:
    """What anyone may ask a file."""
    if not isinstance(file, _IOFile):
        return file
    text: Any = file._file
    return (
        [str(file), str(text), type(text), file.flags, text.flags, text.callable, file.rule.name, file.is_callable()],
        [snakemake.io.is_flagged(file, key) for key in FLAGS],
        hash(file),
    )


@given(names | st.sampled_from(["<results>/a", "<nothing>/a", "a/"]), flags, wildcards, st.integers(0, 2))
def test_a_pattern_names_the_same_file(name: str, flagged: dict[str, Any], values: dict[str, Any], within: int):
    rule = rule_of()
    pattern = outcome(made, name, flagged, rule)
    if isinstance(pattern, tuple):
        return
    for _ in range(within):  # what an input function returns may be a file already
        pattern = _IOFile(pattern, rule)
    files = [outcome(function, pattern, values) for function in (lean_files._with_wildcards, lean_files._named_by)]
    assert seen_of(files[0]) == seen_of(files[1])
    if isinstance(files[1], _IOFile):
        files[1].flags["temp"] = "changed"
        assert pattern.flags.get("temp") == flagged.get("temp")


def test_a_wildcard_without_a_value_is_refused():
    pattern = made("results/{model}/{target}", {}, rule_of())
    refused = outcome(lean_files._with_wildcards, pattern, {"model": "digits"})
    assert refused == outcome(lean_files._named_by, pattern, {"model": "digits"})
    assert refused[0].__name__ == "WildcardError"


@given(names, flags, st.sampled_from(FLAGS))
def test_a_file_has_the_same_flags(name: str, flagged: dict[str, Any], asked: str):
    file = made(name, flagged, None)
    for value in (
        file,
        file._file,
        _IOFile(file, None),
        name,
        AnnotatedString(name),
        lambda: name,
        Path(name),
        [name],
        None,
    ):
        assert lean_files._has_flag(value, asked) is lean_files._is_flagged(value, asked)


class Heard(logging.Handler):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(scope="module")
def heard() -> Iterator[Heard]:
    handler = Heard()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@given(name=names)
def test_the_same_names_are_warned_of(name: str, heard: Heard):
    file = made(name, {}, rule_of())
    said = []
    for function in (lean_files._check, lean_files._warn_of_its_name):
        heard.lines.clear()
        function(file)
        said.append(list(heard.lines))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["./a", " a", "a ", "a\nb", "a//b", "//a", ""])
def test_names_are_warned_of(name: str, heard: Heard):
    heard.lines.clear()
    lean_files._warn_of_its_name(made(name, {}, rule_of()))
    assert heard.lines


@given(st.lists(st.tuples(st.sampled_from(["model", "kernel", "index", "sort", "", None]), st.integers()), max_size=5))
def test_a_list_has_the_same_items_and_names(items: list[tuple[str | None, int]]):
    lists = []
    for make in (lean_files._named_list, lean_files._make_list):

        class Mine(Namedlist):
            __init__ = make

        first = Mine(fromdict={name: value for name, value in items if name is not None})
        plain = Mine(toclone=[value for _, value in items])
        for number, (name, _) in enumerate(items):
            if name:
                plain._set_name(name, number, end=number + 1 if number % 2 else None)
        clones = [Mine(toclone=each, plainstr=plain_text) for each in (first, plain) for plain_text in (False, True)]
        lists.append(
            [
                (list(each), dict(each._names), list(each._allitems()), {n: getattr(each, n) for n in each._names})
                for each in (first, plain, *clones)
            ]
        )
        for each in (first, plain):
            if "index" not in each._names:
                with pytest.raises(AttributeError, match="cannot be used"):
                    each.index(1)
    assert lists[0] == lists[1]


@pytest.mark.parametrize("name", ["append", "items"])
def test_a_reserved_name_is_refused(name: str):
    class Mine(Wildcards):
        __init__ = lean_files._make_list

    with pytest.raises(AttributeError, match="reserved"):
        Mine(fromdict={name: 1})


PLACES = ("there", "gone", "made/there", "made/gone", "none/gone", "made//there", "./there", "made/inner/there")
"""Files in a directory, of which some exist."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made" / "inner").mkdir(parents=True)
    for name in ("there", "made/there", "made/inner/there"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("listed_first", PLACES)
@pytest.mark.parametrize("active", [True, False])
def test_the_same_files_exist(listed_first: str, active: bool, directory: Path):
    async def existing(exists: Any) -> list[bool]:
        cache = IOCache(10)
        rule = rule_of(cache)
        await made(listed_first, {}, rule).inventory()
        if not active:
            cache.deactivate()
        files = [made(name, {}, rule) for name in (*PLACES, str(directory / "there"), str(directory / "gone"))]
        return [await exists(file) for file in files * 2]

    lean, plain = (asyncio.run(existing(function)) for function in (lean_files._is_there, lean_files._exists))
    assert lean == plain
    asked = (*PLACES, str(directory / "there"), str(directory / "gone"))
    # Snakemake does not find a name with two slashes in a directory that it has listed, and warns of such names.
    assert all(there is Path(name).exists() for name, there in zip(asked, lean, strict=False) if "//" not in name)


def test_what_is_known_of_a_file_is_not_looked_up_again(directory: Path):
    rule = rule_of()

    async def twice() -> list[bool]:
        first = await lean_files._is_there(made("there", {}, rule))
        (directory / "there").unlink()
        again = made("there", {}, rule)
        return [first, await lean_files._is_there(again), await lean_files._exists(again)]

    assert asyncio.run(twice()) == [True, True, True]


def job_of(outputs: list[Any]) -> Any:
    """As much of a job as the questions about its outputs need."""
    by_path = {str(file): file for file in outputs}
    return SimpleNamespace(
        output=InputFiles(outputs), output_by_path=by_path, benchmark=None, rule=rule_of(), wildcards={}
    )


def test_the_oldest_output_and_those_not_there_are_the_same(directory: Path):
    async def answers(oldest: Any, missing: Any) -> list[Any]:
        said = []
        for part in ((), ("gone",), ("there", "made/there"), PLACES):
            job = job_of([made(name, {"pipe": True} if name == "there" else {}, rule_of()) for name in part])
            said += [await oldest(job), [str(file) async for file in missing(job, job.output)]]
        return said

    lean = asyncio.run(answers(lean_files._when_the_oldest_was_made, lean_files._outputs_not_there))
    assert lean == asyncio.run(answers(lean_files._oldest_output, lean_files._missing_output))
    assert "there" in lean[-1]
    assert lean[4] == min((directory / name).stat().st_mtime for name in ("there", "made/there"))


def test_a_protected_output_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.access", lambda path, _: str(path) != "made/there")  # root may write everywhere
    free, protected = (job_of([made(name, {}, rule_of())]) for name in ("there", "made/there"))
    for check in (lean_files._refuse_protected_outputs, lean_files._check_protected):
        asyncio.run(check(free))
        with pytest.raises(ProtectedOutputException, match="made/there"):
            asyncio.run(check(protected))


PUT_IN_PLACE = """
import sys
import snakemake.cli
from tvmake import lean_files

took = [name for name, module in sys.modules.items() if getattr(module, "is_flagged", None) is lean_files._is_flagged]
lean_files.ask_about_files_leanly()
print(*(name for name in took if sys.modules[name].is_flagged is lean_files._is_flagged))
print(*took)
"""


def test_every_module_that_asks_for_flags_asks_here():
    done = subprocess.run([sys.executable, "-c", PUT_IN_PLACE], capture_output=True, text=True, check=True)
    left, took = (line.split() for line in done.stdout.split("\n")[:2])
    assert not left
    assert {"snakemake.io", "snakemake.dag", "snakemake.jobs", "snakemake.rules", "snakemake.persistence"} <= set(took)
