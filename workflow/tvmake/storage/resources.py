"""The workflow's own files: beside the package in a checkout, inside it in a wheel."""

import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def snakefile() -> Path:
    """The Snakefile, with ``rules/`` and ``profiles/`` beside it."""
    return _resource("Snakefile")


def native_sources() -> Path:
    """The directory of the C++ sources, with their ``CMakeLists.txt``."""
    return _resource("native")


def android_project() -> Path:
    """The directory of the Android project: a library, and an app that uses it."""
    return _resource("android")


def documentation() -> Path:
    """The directory of the documentation's pages."""
    return _resource("docs")


def _resource(name: str) -> Path:
    inside = PACKAGE / "resources" / name
    return inside if inside.exists() else PACKAGE.parents[1] / name


def put_tvmake_on_path() -> None:
    """Put the directory of this interpreter's ``tvmake`` on PATH, for rules and cluster nodes without an activated environment."""
    scripts = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if scripts not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, path])
