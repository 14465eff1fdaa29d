"""The user's files in a stage's request: models, datasets, modules of passes and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.config.dataset_files import dataset_files
from tvmake.frontend.model_files import model_files, python_file

if TYPE_CHECKING:
    from tvmake.config.dataset import DatasetConfig
    from tvmake.config.validation import Goals
    from tvmake.frontend.options import ImportOptions
    from tvmake.transform.options import UserPass


def user_files(
    *,
    model: ImportOptions | None = None,
    dataset: DatasetConfig | None = None,
    passes: Iterable[UserPass] = (),
    goals: Goals | None = None,
) -> list[Path]:
    """The files of parts of a request, for a stage's ``reads``."""
    metrics = ((goals and goals.metrics) or {}).values()
    functions = [*(user_pass.use for user_pass in passes), *(metric.use for metric in metrics)]
    names = [*(model_files(model) if model else ()), *dataset_files(dataset), *map(python_file, functions)]
    return [Path(name) for name in dict.fromkeys(names)]
