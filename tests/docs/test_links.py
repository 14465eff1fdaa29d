"""Pages that the code, its messages and other pages name exist, with the heading that is named."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "workflow" / "tvmake"
NAMED = re.compile(r"\bdocs/[\w./-]*\.md(?:#[\w-]+)?")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEXT = {".py", ".md", ".smk", ".yaml", ".yml", ".toml", ".sh", ".cc", ".cpp", ".h", ".txt", ".json", ""}


def files() -> list[Path]:
    """The text files of the repository, those not yet added among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in listed if Path(name).suffix in TEXT and (ROOT / name).is_file()]


PAGES = [file for file in files() if file.suffix == ".md"]


def unfenced(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def headings(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub forms them; ``make docs`` checks those of the site."""
    titles = re.findall(r"^#+ (.*)$", unfenced(page), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)


def leads_nowhere(target: str, directory: Path) -> bool:
    name, _, anchor = target.partition("#")
    page = directory / name
    return not page.exists() or (bool(anchor) and page.suffix == ".md" and anchor not in headings(page.resolve()))


def test_every_page_that_the_code_or_a_message_names_exists():
    assert any("tvmake" in file.parts and NAMED.search(file.read_text(encoding="utf-8")) for file in files())
    wrong = [
        f"{file.relative_to(ROOT)}: {named}"
        for file in files()
        if file.name != "CHANGELOG.md"  # tells of pages under the names they had
        for named in NAMED.findall(file.read_text(encoding="utf-8"))
        if leads_nowhere(named, ROOT)
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    links = [link for link in LINK.findall(unfenced(page)) if not link.startswith(("http://", "https://", "mailto:"))]
    wrong = [link for link in links if leads_nowhere(page.name + link if link.startswith("#") else link, page.parent)]
    assert wrong == []


def pages_of(entry: object) -> set[str]:
    if isinstance(entry, str):
        return {entry}
    return set().union(*map(pages_of, entry.values() if isinstance(entry, dict) else entry))


def test_the_site_has_every_page_and_the_overview_names_it():
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert pages_of(project["nav"]) == pages
    assert set(LINK.findall((DOCS / "index.md").read_text(encoding="utf-8"))) >= pages - {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_repository_that_a_page_names_exist(page: Path):
    if page.name in ("CHANGELOG.md", "add-a-stage.md"):  # files that were, and files to write
        return
    folders = "workflow|rules|tests|docs|benchmarks|envs|native|profiles|config/examples|resources"
    named = re.findall(rf"(?<![\w/.])(?:{folders})/[\w./-]*\w", unfenced(page))
    modules = re.findall(r"`(\w+/[\w/]*\.py)`", unfenced(page))  # of the package
    wrong = [name for name in named if not (ROOT / name).exists()]
    wrong += [name for name in modules if not (ROOT / name).exists() and not (PACKAGE / name).exists()]
    assert wrong == []
