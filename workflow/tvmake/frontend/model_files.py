"""List the files of a model, and find the file that defines a Python name, without importing or reading any."""

import os
import sys
from pathlib import Path

from tvmake.frontend.checkpoint_files import checkpoint_files
from tvmake.frontend.options import ImportOptions


def model_files(model: ImportOptions) -> list[str]:
    """The files the import stage reads, the model's own first.

    A source that does not exist is listed too: Snakemake then reports it as missing.
    """
    kind = model.source_format()
    if kind == "zoo":
        return []
    if kind in ("factory", "relax"):
        return [python_file(model.source), *model.files]
    if kind == "transformers":
        return [*checkpoint_files(model.source), *model.files]
    source = Path(model.source)
    siblings = [source.with_name(source.name + end) for end in (".data", "_data")] + [source.with_suffix(".data")]
    data = [str(path) for path in siblings if kind == "onnx" and os.path.isfile(path)]  # noqa: PTH113  # False for a name that is too long
    return list(dict.fromkeys([model.source, *data, *model.files]))


def python_file(name: str) -> str:
    """The file that defines ``package.module:function``, without importing anything.

    Searches ``sys.path``, then the working directory. For a missing module, returns the path that it would have in the
    working directory.
    """
    relative = Path(*name.partition(":")[0].split("."))
    for root in (*_relative_roots(sys.path), "."):
        for candidate in (relative.with_suffix(".py"), relative / "__init__.py"):
            path = Path(root) / candidate
            if path.is_file():
                return str(path)
    return str(relative.with_suffix(".py"))


def _relative_roots(directories: list[str]) -> list[str]:
    working_directory = str(Path.cwd())
    return ["." if directory == working_directory else directory or "." for directory in directories]
