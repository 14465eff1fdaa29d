"""Collect the errors of a config."""

from pathlib import Path

import pytest

from tvmake.config.reading.load import load
from tvmake.errors import ErrorList, InputError, TvmakeError

MINIMAL = "models: {net: {source: net.onnx}}\n"


def mistakes(*paths: Path) -> list[InputError]:
    """Return all errors of merged config files."""
    with pytest.raises(TvmakeError) as caught:
        load(paths)
    error = caught.value
    return list(error.errors) if isinstance(error, ErrorList) else [error]
