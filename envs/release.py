"""Check that a tag can be released, and write its notes: ``python envs/release.py check|notes v0.3.0``.

Used by ``.github/workflows/release.yml``, with Python alone.
"""

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


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What prevents the release of a tag, one line each."""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        return [f"{tag}: a release's tag is v and three numbers, such as v0.3.0"]
    version = tag.removeprefix("v")
    found = []
    code = (root / "workflow/tvmake/__init__.py").read_text(encoding="utf-8")
    if f'\n__version__ = "{version}"\n' not in code:
        found.append(f"workflow/tvmake/__init__.py: __version__ is not {version}")
    if not section(version, root):
        found.append(f"CHANGELOG.md: there is no section [{version}] with a date")
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        found.append(f"CITATION.cff: version is not {version}")
    return found


def main(arguments: list[str]) -> int:
    """Run the command."""
    if len(arguments) != 2 or arguments[0] not in ("check", "notes"):
        print(__doc__, file=sys.stderr)
        return 2
    command, tag = arguments
    if found := problems(tag):
        print("\n".join(f"error: {problem}" for problem in found), file=sys.stderr)
        return 1
    if command == "notes":
        print(section(tag.removeprefix("v")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
