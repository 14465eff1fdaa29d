"""Run the cells of the notebook and write it with what they gave: ``python docs/scripts/notebook.py [FILE]``.

Cells are those of ``docs/guides/python.ipynb``; edit them there, in Jupyter or as text. They run one after the other in this process, in
a directory of their own with the files that the notebook names. The value of a cell's last line is its output, as in Jupyter.
"""

import ast
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "guides" / "python.ipynb"
FILES = {"digits.onnx": "model.onnx", "digits-test.npz": "digits-test.npz"}
"""Of ``resources/``, and what they are called beside the notebook."""


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells; they run in the working directory.

    Raises:
        Exception: whatever a cell raises.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = list(_run("".join(cell["source"]), names, count))
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _run(source: str, names: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None
    if text := printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    if value is not None:
        yield {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": _forms(value)}


def _forms(value: Any) -> dict[str, list[str]]:
    forms = {"text/plain": repr(value).splitlines(keepends=True)}
    html = getattr(value, "_repr_html_", lambda: None)()
    return {"text/html": html.splitlines(keepends=True), **forms} if html else forms


def written(notebook: dict[str, Any]) -> str:
    """A notebook as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def place(directory: Path) -> None:
    """Put the files that the notebook names into a directory."""
    for source, name in FILES.items():
        shutil.copy(ROOT / "resources" / source, directory / name)


if __name__ == "__main__":
    destination = Path(*sys.argv[1:2] or [NOTEBOOK]).resolve()
    given = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as directory:
        place(Path(directory))
        os.chdir(directory)
        os.environ["TVMAKE_HOME"] = str(Path(directory) / "home")
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        found = executed(given)
        os.chdir(ROOT)
    destination.write_text(written(found), encoding="utf-8")
