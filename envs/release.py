"""Prepare a release, check that its tag can be released, or print its notes: ``python envs/release.py prepare|check|notes v0.3.0``.

``prepare`` writes the version and today's date into all files that have them. ``.github/workflows/release.yml`` uses the others, with
Python alone.
"""

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def section(version: str, root: Path = ROOT) -> str:
    """The changelog's text about a version; empty if it has none."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)", text, re.DOTALL | re.MULTILINE
    )
    return found[1].strip() if found else ""


VERSION = "workflow/tvmake/__init__.py"
CITATION = "CITATION.cff"
CHANGELOG = "CHANGELOG.md"
CONDA = "envs/tvmake.yaml"

TAG = re.compile(r"v\d+\.\d+\.\d+")


def prepare(tag: str, date: str, root: Path = ROOT) -> None:
    """Write a version and its date into all files that have them; *Unreleased* becomes the version's section of the changelog."""
    version = tag.removeprefix("v")
    for name, pattern, text in (
        (VERSION, r'^__version__ = ".*"$', f'__version__ = "{version}"'),
        (CITATION, r"^version: .*$", f"version: {version}"),
        (CITATION, r"^date-released: .*$", f"date-released: {date}"),
        (CHANGELOG, r"^## \[Unreleased\]\n(?:\nThe next version is .*?\. )?", f"## [{version}] - {date}\n\n"),
        (CONDA, r"tvmake\[all\]==.*$", f"tvmake[all]=={version}"),
    ):
        file = root / name
        file.write_text(
            re.sub(pattern, text, file.read_text(encoding="utf-8"), count=1, flags=re.MULTILINE), encoding="utf-8"
        )


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What prevents the release of a tag, one line each."""
    if not TAG.fullmatch(tag):
        return [f"{tag}: a release's tag is v and three numbers, such as v0.3.0"]
    version = tag.removeprefix("v")
    found = []
    code = (root / VERSION).read_text(encoding="utf-8")
    if f'\n__version__ = "{version}"\n' not in code:
        found.append(f"{VERSION}: __version__ is not {version}")
    if not section(version, root):
        found.append(f"CHANGELOG.md: there is no section [{version}] with a date")
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff: version is not {version}")
    if f"- tvmake[all]=={version}\n" not in (root / CONDA).read_text(encoding="utf-8"):
        found.append(f"{CONDA}: the conda environment does not install {version}")
    return found


def main(arguments: list[str]) -> int:
    """Run the command."""
    if len(arguments) != 2 or arguments[0] not in ("prepare", "check", "notes"):
        print(__doc__, file=sys.stderr)
        return 2
    command, tag = arguments
    if command == "prepare" and TAG.fullmatch(tag):
        prepare(tag, datetime.date.today().isoformat())
    if found := problems(tag):
        print("\n".join(f"error: {problem}" for problem in found), file=sys.stderr)
        return 1
    if command == "notes":
        print(section(tag.removeprefix("v")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
