"""Words that readers elsewhere have to translate are not in the project's text; CONTRIBUTING.md has the field's words."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WORDS = {
    r"pictures?": "image, feature map",
    r"truth values?": "booleans",
    r"open extents?|extents? that (is|are) open": "dynamic dimension",
    r"(stands|lies) in": "in",
    r"stands for": "represents",
    r"at work": "running",
    r"of how it was": "the previous version",
    r"told (from|by|apart)": "distinguished from, determined by",
    r"made (anew|again)|anew": "rebuilt, rerun",
    r"(by|in) turns": "alternately, interleaved",
    r"as many as there are": "all",
    r"where that is so|what is so": "if; a noun",
    r"what is no": "a noun: non-X values",
    r"(?<!there )(is|are) no(?! (longer|more|product of matrices|matrix)\b) [a-z]+": "is not a",
    r"goes on": "continues",
    r"thereby|besides": "leave it out",
}
"""Patterns of words, and what to write. Reasons that manifests store keep their text."""

TEXT = {".py", ".md", ".smk", ".yaml", ".toml", ".sh", ".cc", ".h", ".java", ".kt", ".ipynb", ".html"}
OTHERS = ("native/tvm_sources/", "native/tvm_support/", "tests/docs/test_words.py", "tests/report/page/axe-core/")
"""Text of other projects, and this list."""


def test_the_text_has_the_fields_words():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [name for name in names if Path(name).suffix in TEXT and not name.startswith(OTHERS)]
    pattern = re.compile(r"\b(" + "|".join(WORDS) + r")\b", re.IGNORECASE)
    found = [
        f"{name}:{number}: {match[0]}"
        for name in files
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert found == [], "; ".join(f"{pattern}: {instead}" for pattern, instead in WORDS.items())
