"""The files a model consists of, and the file behind a Python name; without importing or reading any."""

import os
import sys
from pathlib import Path

from tvmake.frontend.options import ImportOptions


def model_files(model: ImportOptions) -> list[str]:
    """The files the import stage reads, the model's own first.

    A source that does not exist is listed all the same: Snakemake then reports it as missing.
    """
    kind = model.source_format()
    if kind == "zoo":
        return []
    if kind in ("factory", "relax"):
        return [python_file(model.source), *model.files]
    source = Path(model.source)
    beside = [source.with_name(source.name + end) for end in (".data", "_data")] + [source.with_suffix(".data")]
    data = [str(path) for path in beside if kind == "onnx" and os.path.isfile(path)]  # noqa: PTH113  # False for a name that is too long
    return list(dict.fromkeys([model.source, *data, *model.files]))


def python_file(name: str) -> str:
    """The file that defines ``package.module:function``, without importing anything.

    Looks along ``sys.path``, then in the working directory. A module that is not found is given as the path
    it would have in the working directory.
    """
    relative = Path(*name.partition(":")[0].split("."))
    for root in (*_relative_here(sys.path), "."):
        for candidate in (relative.with_suffix(".py"), relative / "__init__.py"):
            path = Path(root) / candidate
            if path.is_file():
                return str(path)
    return str(relative.with_suffix(".py"))


def _relative_here(places: list[str]) -> list[str]:
    here = str(Path.cwd())
    return ["." if place == here else place or "." for place in places]
