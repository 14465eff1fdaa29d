"""Write the reference of the Python API from its docstrings: ``python docs/scripts/python.py``."""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import tvmake
from tvmake import errors
from tvmake.api.model import TunedKernel, Tuning
from tvmake.benchmark.ops import KernelRow
from tvmake.running.package import Benchmark

PAGE = Path(__file__).resolve().parents[1] / "reference" / "python.md"

INTRODUCTION = """# Python

What `import tvmake` offers. [The notebook](../guides/python.ipynb) shows its use. Arrays are numpy's, times are in ms unless a
name says otherwise. Models, tuning and results are made by the workflow, in `.tvmake/` or beside the config, as the commands make
them. This page is generated from the docstrings: `python docs/scripts/python.py`.
"""

FUNCTIONS = (tvmake.load, tvmake.open, tvmake.generate, tvmake.snakefile)
CLASSES = (tvmake.Model, tvmake.Package, Benchmark, KernelRow, Tuning, TunedKernel, tvmake.Results)
ERRORS = (
    errors.TvmakeError,
    errors.InputError,
    errors.UsageError,
    errors.MachineError,
    errors.DeviceError,
    errors.GoalError,
)
SECTIONS = ("Args:", "Returns:", "Raises:")


def text_of(documented: Any) -> str:
    """A docstring as Markdown: its sections as lists, roles and double backquotes as code."""
    parts = []
    section = ""
    for line in inspect.cleandoc(documented.__doc__ or "").splitlines():
        if line in SECTIONS:
            section = line
            parts.append(f"{line.rstrip(':')}:" if section != "Args:" else "Arguments:")
            parts.append("")
        elif section and re.match(r"    \w[\w, ]*: ", line):
            names, _, text = line.strip().partition(": ")
            parts.append(f"- `{names}`: {text}")
        elif section and line:
            parts.append(f"  {line.strip()}" if parts[-1] else f"- {line.strip()}")
        else:
            parts.append(line)
    text = "\n".join(parts).replace("``", "`")
    return re.sub(r":\w+:`~?\.?(?:\w+\.)*(\w+)`", r"`\1`", text)


def signature(name: str, function: Any) -> str:
    """A call with its defaults and types, as they are written."""
    (written,) = ast.parse(dedent(inspect.getsource(function))).body
    written.args.args = [one for one in written.args.args if one.arg != "self"]
    gives = f" -> {ast.unparse(written.returns)}" if written.returns else ""
    return f"{name}({ast.unparse(written.args)}){gives}"


def members(documented: type) -> Iterator[str]:
    """Fields, properties and methods that a class has itself."""
    if rows := [f"| `{name}` | `{kind}` | {text} |" for name, kind, text in fields(documented)]:
        yield "\n".join(["| | | |", "|---|---|---|", *rows])
    for name, member in vars(documented).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"**`{name}`**: {text_of(member)}"
        elif inspect.isfunction(member):
            yield f"### {documented.__name__}.{name}\n\n```python\n{signature(name, member)}\n```\n\n{text_of(member)}"


def fields(documented: type) -> Iterator[tuple[str, str, str]]:
    """A class's fields: names, types, and the text below each."""
    (written,) = ast.parse(dedent(inspect.getsource(documented))).body
    for field, following in itertools.zip_longest(written.body, written.body[1:]):
        if isinstance(field, ast.AnnAssign):
            value = getattr(getattr(following, "value", None), "value", "") if isinstance(following, ast.Expr) else ""
            text = " ".join(value.replace("``", "`").split())
            yield ast.unparse(field.target), ast.unparse(field.annotation).replace("|", r"\|"), text.replace("|", r"\|")


def page() -> str:
    """The page, as Markdown."""
    parts = [INTRODUCTION.rstrip()]
    for function in FUNCTIONS:
        name = f"tvmake.{function.__name__}"
        parts.append(f"## {name}\n\n```python\n{signature(name, function)}\n```\n\n{text_of(function)}")
    for kind in CLASSES:
        public = f"tvmake.{kind.__name__}" if kind.__name__ in tvmake.__all__ else kind.__name__
        parts += [f"## {public}", text_of(kind), *members(kind)]
    rows = [f"| `{kind.__name__}` | {kind.exit_code} | {text_of(kind).splitlines()[0]} |" for kind in ERRORS]
    parts += ["## tvmake.errors", "| exception | exit code of a command | |\n|---|---|---|\n" + "\n".join(rows)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
