"""Determine the version of PyTorch that wrote a ``.pt2`` file, for errors about other versions."""

import json
import re
import zipfile
from pathlib import Path

import torch

_MOST_BYTES = 1 << 28


def foreign_torch_version(source: Path) -> str | None:
    """The version of PyTorch that wrote a file, if its first two numbers differ from the installed version.

    Args:
        source: an archive without damage.

    Returns:
        For example ``2.20.0``; None if the versions agree or the file has none.
    """
    with zipfile.ZipFile(source) as archive:
        program = next((name for name in archive.namelist() if name.endswith("models/model.json")), None)
        if program is None or archive.getinfo(program).file_size > _MOST_BYTES:
            return None
        try:
            version = json.loads(archive.read(program)).get("torch_version")
        except (AttributeError, RecursionError, ValueError):
            return None
    if not isinstance(version, str) or not re.fullmatch(r"\d+\.\d+[\w.+]{0,40}", version):
        return None
    return None if _generation(version) == _generation(str(torch.__version__)) else version


def export_again_remedy() -> str:
    """The remedy for a file of another version."""
    release = str(torch.__version__).partition("+")[0]
    return f"export the model again with PyTorch {release}, torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')"


def _generation(version: str) -> list[str]:
    return version.split(".")[:2]
