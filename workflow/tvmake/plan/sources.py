"""The files a stage reads besides other stages' outputs: models, their side files, datasets, Python modules of the user."""

import sys
from pathlib import Path

from tvmake.config.dataset import DatasetConfig
from tvmake.config.model import ImportOptions
from tvmake.config.transform import UserPass


def model_files(model: ImportOptions) -> list[str]:
    """The files the import stage reads, the model's own first.

    A source that does not exist is listed all the same: Snakemake then reports it as missing.
    """
    kind = model.source_format()
    if kind == "zoo":
        return []
    if kind == "factory":
        return [python_file(model.source), *model.files]
    source = Path(model.source)
    beside = [source.with_name(source.name + end) for end in (".data", "_data")] + [source.with_suffix(".data")]
    data = [str(path) for path in beside if kind == "onnx" and path.is_file()]
    return list(dict.fromkeys([model.source, *data, *model.files]))


def dataset_files(dataset: DatasetConfig | None) -> list[str]:
    """The files a dataset consists of: the array or list itself, and every image it names."""
    if dataset is None:
        return []
    path = Path(dataset.path)
    files = [str(path)]
    if path.is_dir():
        files = sorted(str(file) for file in path.rglob("*") if file.is_file())
    elif path.suffix in (".csv", ".tsv") and path.is_file():
        separator = "," if path.suffix == ".csv" else "\t"
        names = (line.partition(separator)[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
        # The header, if there is one, names no file.
        files += sorted(str(path.parent / name) for name in names if name and (path.parent / name).is_file())
    if isinstance(dataset.label_names, str):
        files.append(dataset.label_names)
    return files


def pass_files(passes: list[UserPass]) -> list[str]:
    """The Python files that user passes come from."""
    return list(dict.fromkeys(python_file(user_pass.use) for user_pass in passes))


def python_file(name: str) -> str:
    """The file that defines ``package.module:function``, without importing anything.

    Looks in the working directory first, then along ``sys.path``. A module that is not found is given as the path
    it would have in the working directory.
    """
    relative = Path(*name.partition(":")[0].split("."))
    for root in (".", *sys.path):
        for candidate in (relative.with_suffix(".py"), relative / "__init__.py"):
            path = Path(root) / candidate
            if path.is_file():
                return str(path)
    return str(relative.with_suffix(".py"))
