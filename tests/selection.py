"""The tests that `make test` runs: those that a change can break, nearest first, as many as fit into its time.

A test file is concerned by a change when a changed file is within its reach: a file it imports, directly or over
others; a file it names; and for tests that run tvmake's commands the whole package and its workflow, or only the modules
that the file lists as ``RUNS = ("tvmake.cli.device",)``. Without a change the core set runs: all that is not marked
``long``. What is left out is listed at the end, with the command that runs it.
"""

import ast
import contextlib
import json
import math
import os
import re
import subprocess
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from tvmake.storage import code_fingerprint

ROOT = Path(__file__).resolve().parents[1]

COSTS = Path(__file__).with_name("costs.json")
"""Processor seconds of each test file: without its ``long`` tests, and of those. ``--write-costs`` writes it."""

UNKNOWN_COSTS_S = (10.0, 60.0)
"""Cost of a file that is not listed yet."""

MINUTES = 6
BUDGET_S = MINUTES * 60 * 2 * 0.85
"""Processor seconds of a quick run: two cores for this time, less a seventh for starting and waiting."""

WORKFLOW = ("Snakefile", "rules/", "profiles/", "config/")
"""Files, other than the package, that commands read."""

EVERYWHERE = ("pyproject.toml", "envs/test.lock", "tests/conftest.py", "tests/selection.py", "tests/requirements.py")
"""Files that every test depends on."""

LONG_PENALTY = 2
"""Additional distance for tests marked ``long``."""

_MODULE = re.compile(r"\b(?:tvmake|tests)(?:\.\w+)+")
_COMMAND = re.compile(r"""["'](?:tvmake|snakemake)["']""")


@dataclass(frozen=True)
class Part:
    """A part of a test file: its ``long`` tests, or the others."""

    file: str
    is_long: bool


class Reach:
    """The dependencies of one test file.

    Args:
        file: its path below the repository's root.
    """

    def __init__(self, file: str):
        self.file = file

    @cached_property
    def test_files(self) -> frozenset[str]:
        """The test file, the modules of tests that it imports, and the ``conftest.py`` files above it."""
        pending, found = [self.file], set[str]()
        while pending:
            file = pending.pop()
            if file in found:
                continue
            found.add(file)
            pending += _conftests(file)
            pending += filter(None, map(_file_of_tests, _names(file)))
        return frozenset(found)

    @cached_property
    def direct_modules(self) -> frozenset[str]:
        """The package's modules that these files name, with the packages that contain them."""
        found = (_module(name) for file in self.test_files for name in _names(file))
        return _with_packages(filter(None, found))

    @cached_property
    def modules(self) -> frozenset[str]:
        """The package's modules that these import, and those of the commands that the test file lists."""
        roots = {*self.direct_modules, *(_constant(self.file, "RUNS") or ())}
        return _with_packages(code_fingerprint.reachable(*sorted(roots))[0])

    @cached_property
    def runs_everything(self) -> bool:
        """Whether these files run commands that the test file does not list."""
        return _constant(self.file, "RUNS") is None and any(_COMMAND.search(_text(file)) for file in self.test_files)

    def distance(self, changed: str) -> int | None:
        """Distance of a changed file, from 0 for the test file itself; None if it cannot affect the test file."""
        if changed == self.file:
            return 0
        if changed in self.test_files:
            return 1
        if changed.startswith(EVERYWHERE):
            return 5
        if changed.startswith("tests/"):
            return 1 if self._names_file(changed) else None
        module = _module_of(changed)
        if module is not None:
            if module in self.direct_modules:
                return 1 if module.split(".")[1:2] == self.file.split("/")[1:2] else 2
            if module in self.modules:
                return 3
        elif self._names_file(changed):
            return 2
        is_read_by_commands = module is not None or changed.startswith(WORKFLOW)
        return 4 if self.runs_everything and is_read_by_commands else None

    def _names_file(self, changed: str) -> bool:
        path = Path(changed)
        names = (re.escape(path.name), *(rf"{re.escape(str(parent))}/?[\"']" for parent in path.parents if parent.name))
        return any(re.search(rf"[\"'/](?:{'|'.join(names)})", _text(file)) for file in self.test_files)


def changed_files() -> list[str]:
    """Files that differ from where the branch left the default branch, those of the working tree included.

    Without git there are none.
    """
    base = next(filter(None, (_git("merge-base", "HEAD", name) for name in ("origin/HEAD", "main", "master"))), "HEAD")
    changed = _git("diff", "--name-only", "--relative", base.strip())
    untracked = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*changed.splitlines(), *untracked.splitlines()})


def all_test_files() -> list[str]:
    """All test files, below the repository's root."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def costs() -> dict[str, tuple[float, float]]:
    """The contents of :data:`COSTS`."""
    return {file: (short, long) for file, (short, long) in json.loads(COSTS.read_text()).items()}


def parts(file: str) -> list[Part]:
    """The parts of a test file."""
    text = _text(file)
    is_all_long = re.search(r"^pytestmark = .*\bmark\.long\b", text, re.MULTILINE) is not None
    has_long = re.search(r"\bmark\.long\b", text) is not None
    return [Part(file, is_long) for is_long in (False, True) if (has_long if is_long else not is_all_long)]


def concerned(files: Iterable[str], changed: Sequence[str]) -> dict[Part, int]:
    """The parts of test files that a changed file can affect, with their ranks: the nearest have the lowest."""
    found: dict[Part, int] = {}
    for file in files:
        reach = Reach(file)
        distances = [distance for name in changed if (distance := reach.distance(name)) is not None]
        for part in parts(file) if distances else ():
            # Edited tests always run.
            penalty = LONG_PENALTY if part.is_long and min(distances) else 0
            found[part] = min(distances) + penalty
    return found


def core(files: Iterable[str], known: Mapping[str, tuple[float, float]]) -> dict[Part, int]:
    """The selection if nothing has changed: all short tests, and the cheapest file of each room."""
    ranks = {part: 1 for file in files for part in parts(file) if not part.is_long}
    rooms: dict[str, Part] = {}
    for part in sorted(ranks, key=lambda part: (cost(part, known), part.file)):
        rooms.setdefault(part.file.split("/")[1], part)
    return ranks | dict.fromkeys(rooms.values(), 0)


def cost(part: Part, known: Mapping[str, tuple[float, float]]) -> float:
    """Processor seconds."""
    return known.get(part.file, (0.0, 0.0))[part.is_long] or UNKNOWN_COSTS_S[part.is_long]


def within_budget(
    ranks: Mapping[Part, int], known: Mapping[str, tuple[float, float]], budget_s: float = BUDGET_S
) -> set[Part]:
    """The parts to run: by rank, among equals the cheapest first, so that most files take part.

    What has rank 0 always runs.
    """
    chosen, spent = set(), 0.0
    for part in sorted(ranks, key=lambda part: (ranks[part], cost(part, known), part.file)):
        if ranks[part] == 0 or spent + cost(part, known) <= budget_s:
            chosen.add(part)
            spent += cost(part, known)
    return chosen


# --- the plugin -------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection")
    group.addoption("--quick", action="store_true", help="only what a change can break, within six minutes")
    group.addoption(
        "--changed",
        action="append",
        metavar="FILE",
        help="with --quick: what has changed, instead of what git says: --changed=FILE, repeatable",
    )
    group.addoption("--write-costs", action="store_true", help=f"note in {COSTS.name} what the files that ran took")


class Selection:
    """The plugin of a quick run.

    Args:
        chosen: the parts that run.
        left_out: those that the change concerns too.
        is_core: whether nothing has changed that concerns a test.
    """

    def __init__(self, chosen: Iterable[Part], left_out: Iterable[Part] = (), is_core: bool = False):
        self.chosen, self.left_out, self.is_core = set(chosen), list(left_out), is_core

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass the selection to a process of pytest-xdist."""
        node.workerinput["chosen"] = [(part.file, part.is_long) for part in self.chosen]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
            return None
        file = _below_root(collection_path)
        return True if not {Part(file, False), Part(file, True)} & self.chosen else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept, dropped = [], []
        for item in items:
            part = Part(_below_root(item.path), item.get_closest_marker("long") is not None)
            (kept if part in self.chosen else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        what = "the core set, as no test file is concerned by a change" if self.is_core else "what the change concerns"
        files = len({part.file for part in self.chosen})
        terminalreporter.write_line(
            f"ran {what}: {files} of {len(all_test_files())} test files; `make test-all` runs everything"
        )
        if self.left_out:
            rooms = Counter(str(Path(part.file).parent) for part in self.left_out)
            terminalreporter.write_line(
                f"left out, to stay within {MINUTES} minutes: {', '.join(f'{room} ({n})' for room, n in sorted(rooms.items()))}; "
                "one room whole: `make test PYTEST_ARGS=tests/validate`"
            )


class ProcessorTime:
    """The plugin that measures the processor time of each test in the process that runs it, its children included."""

    def __init__(self) -> None:
        self.before_s = 0.0

    def pytest_runtest_logstart(self) -> None:
        self.before_s = _processor_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add ``processor_s`` to the report of a setup, a call or a teardown."""
        report = yield
        now_s = _processor_s()
        vars(report)["processor_s"] = now_s - self.before_s
        self.before_s = now_s
        return report


class CostWriter:
    """The plugin that writes the processor time of the files that ran into :data:`COSTS`."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self.spent.setdefault(report.nodeid.partition("::")[0], [0.0, 0.0])
        spent["long" in report.keywords] += vars(report)["processor_s"]

    def pytest_sessionfinish(self) -> None:
        there = set(all_test_files())
        known = {file: list(cost) for file, cost in costs().items()} | self.spent
        lines = (
            f'"{file}": {[math.ceil(10 * cost) / 10 for cost in known[file]]}'
            for file in sorted(known)
            if file in there
        )
        COSTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first: the last ones are short, so that no process runs long after the others."""
    if hasattr(config, "workerinput"):  # pytest-xdist; without --no-loadscope-reorder it puts files with few tests last
        known = costs()
        items.sort(key=lambda item: -sum(known.get(_below_root(item.path), UNKNOWN_COSTS_S)))


def pytest_configure(config: pytest.Config) -> None:
    if config.option.write_costs:
        config.pluginmanager.register(ProcessorTime())
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        if "chosen" in config.workerinput:
            config.pluginmanager.register(Selection(Part(*part) for part in config.workerinput["chosen"]))
        return
    if config.args_source is pytest.Config.ArgsSource.ARGS:  # named tests always run
        config.option.quick = False
    if config.option.write_costs:
        config.pluginmanager.register(CostWriter())
    if config.option.quick:
        files = all_test_files()
        changed = changed_files() if config.option.changed is None else config.option.changed
        ranks = concerned(files, changed)
        is_core = not ranks
        if is_core:
            ranks = core(files, costs())
        chosen = within_budget(ranks, costs())
        config.pluginmanager.register(Selection(chosen, set(ranks) - chosen, is_core))


def _processor_s() -> float:
    """Processor time of this process and its children, ended and running ones."""
    processes: dict[int, tuple[int, int]] = {}  # the parent, and ticks including those of ended children
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ends meanwhile
            fields = file.read_text().rpartition(")")[2].split()
            processes[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    for process in sorted(processes):  # parents first; a process may be missed after process numbers wrapped around
        if processes[process][0] in family:
            family.add(process)
    ticks = sum(processes[process][1] for process in family if process in processes)
    return ticks / os.sysconf("SC_CLK_TCK")


# --- files and names --------------------------------------------------------------------------------------------------


def _below_root(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


@cache
def _text(file: str) -> str:
    try:
        return (ROOT / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


@cache
def _names(file: str) -> frozenset[str]:
    """Dotted names of modules and of imported names, in import lines and in other text."""
    text = _text(file)
    names = set(_MODULE.findall(text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def _with_packages(modules: Iterable[str]) -> frozenset[str]:
    found = set(modules)
    for module in tuple(found):
        while module := module.rpartition(".")[0]:
            found.add(module)
    return frozenset(found)


def _module(name: str) -> str | None:
    """The package's module at the beginning of a dotted name."""
    while name.startswith(f"{code_fingerprint.PACKAGE}."):  # `tvmake.yaml` is not a module
        base = ROOT / "workflow" / name.replace(".", "/")
        if base.with_suffix(".py").is_file() or (base / "__init__.py").is_file():
            return name
        name = name.rpartition(".")[0]
    return None


def _module_of(file: str) -> str | None:
    """The module of a file; for other files of the package, and native sources, the package that contains them."""
    path = Path(file)
    if path.parts[0] == "native":
        return f"{code_fingerprint.PACKAGE}.native"
    if path.parts[:2] != ("workflow", code_fingerprint.PACKAGE):
        return None
    return _module(".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__"))


def _file_of_tests(name: str) -> str | None:
    while "." in name:
        path = Path(*name.split(".")).with_suffix(".py")
        if path.parts[0] == "tests" and (ROOT / path).is_file():
            return str(path)
        name = name.rpartition(".")[0]
    return None


def _conftests(file: str) -> list[str]:
    found = (str(parent / "conftest.py") for parent in Path(file).parents)
    return [path for path in found if path not in (file, *EVERYWHERE) and (ROOT / path).is_file()]


@cache
def _constant(file: str, name: str) -> tuple[str, ...] | None:
    """The value of a constant in a file that is parsed, not run; None if there is no such constant."""
    for node in ast.parse(_text(file)).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [name]:
            return tuple(ast.literal_eval(node.value))
    return None
