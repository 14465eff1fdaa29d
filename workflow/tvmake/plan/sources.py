"""The files a stage reads besides models and other stages' outputs: datasets, Python modules of the user."""

from pathlib import Path

from tvmake.config.dataset import DatasetConfig
from tvmake.config.model_files import python_file
from tvmake.config.transform import UserPass


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
