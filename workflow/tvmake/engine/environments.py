"""The software that jobs run in with Snakemake's ``--software-deployment-method``: this tvmake again, or an image."""

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

from tvmake.storage.directories import cache_directory
from tvmake.storage.files import digest_bytes
from tvmake.storage.resources import snakefile

IMAGE = "TVMAKE_IMAGE"
"""The variable that names the image of containers: ``registry.example/me/tvmake:0.3.0``, or an Apptainer file."""

REQUIREMENT = "tvmake[all]"


def conda_file() -> str:
    """The path of the conda environment with this version of tvmake.

    A release comes from the package index, by its version. A wheel that pip installed from a path or URL comes from there, with the
    digest that pip recorded.
    """
    packaged = snakefile().parent / "envs" / "tvmake.yaml"
    if (wheel := _wheel()) is None:
        return str(packaged)
    lines = [
        f'      - "{REQUIREMENT} @ {wheel}"' if line.strip().startswith(f"- {REQUIREMENT}") else line
        for line in packaged.read_text(encoding="utf-8").splitlines()
    ]
    text = "\n".join(lines) + "\n"
    path = cache_directory("conda") / digest_bytes(text.encode())[:12] / packaged.name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    return str(path)


def image() -> str | None:
    """The image of jobs as Snakemake names it; None if none is set."""
    name = os.environ.get(IMAGE)
    if not name or "://" in name or name.endswith(".sif"):
        return name or None
    return f"docker://{name}"


def is_installable() -> bool:
    """Whether conda can install this version of tvmake: a release, or a wheel that still exists."""
    wheel = _wheel()
    if wheel is not None:
        path = wheel.partition("#")[0].removeprefix("file://")
        return "://" in path or Path(path).is_file()
    return _origin() is None and ".dev" not in metadata.version("tvmake")


def _wheel() -> str | None:
    """The URL of the wheel that this tvmake was installed from, with its sha256; None if it has another origin."""
    origin = _origin() or {}
    digest = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
    return f"{origin['url']}#sha256={digest}" if digest else None


def _origin() -> dict[str, Any] | None:
    """What pip recorded on an installation that did not come from an index; None if it did."""
    try:
        text = metadata.distribution("tvmake").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    recorded: dict[str, Any] | None = json.loads(text) if text else None
    return recorded
