"""What reading a config finds wrong with it."""

from pathlib import Path

import pytest

from tvmake.config.reading.load import load
from tvmake.errors import ErrorList, InputError, TvmakeError

MINIMAL = "models: {net: {source: net.onnx}}\n"


def mistakes(*paths: Path) -> list[InputError]:
    """Each mistake of config files that are laid over each other."""
    with pytest.raises(TvmakeError) as caught:
        load(paths)
    error = caught.value
    return list(error.errors) if isinstance(error, ErrorList) else [error]
