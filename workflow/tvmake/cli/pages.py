"""The documentation's pages, which messages name as ``docs/guides/slurm.md``: a checkout and a wheel have them."""

import re
import sys
from difflib import get_close_matches
from pathlib import Path

from tvmake.errors import UsageError
from tvmake.storage.resources import documentation

PREFIX = "docs/"

_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


def is_page(name: str) -> bool:
    """Whether a word names a page: as messages do, as links between pages do, or by a page's own name."""
    return ".md" in name or name.partition("#")[0] in _names()


def print_page(name: str) -> None:
    """Print a page, or the section that the name ends with (``docs/guides/config.md#goals``).

    Raises:
        UsageError: there is no such page or section.
    """
    page, _, anchor = name.partition("#")
    file = _names().get(page)
    if file is None:
        close = get_close_matches(page, _names(), 1)
        remedy = f"did you mean `tvmake help {close[0]}`? " if close else ""
        raise UsageError(f"tvmake help {name}", "no such page", f"{remedy}`tvmake help {PREFIX}index.md` lists them")
    text = file.read_text(encoding="utf-8")
    if anchor:
        sections = sections_of(text)
        if anchor not in sections:
            known = ", ".join(sections)
            raise UsageError(f"tvmake help {name}", f"the page has no section {anchor!r}", f"it has {known}")
        text = sections[anchor]
    if sys.stdout.isatty():
        from rich.markdown import Markdown

        from tvmake.cli.terminal import open_console

        open_console().print(Markdown(text))
    else:
        print(text.rstrip())


def sections_of(text: str) -> dict[str, str]:
    """The sections of a page with their subsections, by the anchors that links name."""
    # Comments in code look like headings.
    headings = list(_HEADING.finditer(_FENCED.sub(lambda code: " " * len(code[0]), text)))
    sections = {}
    for index, heading in enumerate(headings):
        ends = (later.start() for later in headings[index + 1 :] if len(later[1]) <= len(heading[1]))
        sections[_anchor(heading[2])] = text[heading.start() : next(ends, len(text))]
    return sections


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _names() -> dict[str, Path]:
    """The pages by the names that they are found by; a stem that two pages share names neither."""
    directory = documentation()
    files = sorted(directory.rglob("*.md"))
    stems = [file.stem for file in files]
    paths = {file.relative_to(directory).as_posix(): file for file in files}
    by_stem = {file.stem: file for file in files if stems.count(file.stem) == 1}
    return {**by_stem, **paths, **{f"{PREFIX}{name}": file for name, file in paths.items()}}
