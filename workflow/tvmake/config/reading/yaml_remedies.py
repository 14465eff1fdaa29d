"""Problems and remedies for invalid YAML.

PyYAML's C parser and its Python parser word the same mistakes differently; the tables cover both.
"""

import re

import yaml

REMEDIES = (
    ("expected <document start>", "a config is YAML, with a colon and a space after each key; `tvmake init MODEL` writes one"),
    ("for merging", "<< takes an alias: write <<: *NAME, and &NAME before the mapping that is merged"),
    ("constructor for the tag", "a config cannot have tags; remove it, and merge several files with -c FILE -c FILE"),
    ("undefined tag handle", "a config cannot have tags; remove the word that begins with !"),
    ("YAML document", "remove the line that begins with %YAML; a config needs none"),
    ("YAML directive", "remove the line that begins with %YAML; a config needs none"),
    ("directive name", "remove the line that begins with %, or put the text in quotation marks"),
    ("escape character", "a backslash is an escape in double quotation marks: write '…' instead of \"…\", or / for the backslash"),
    ("comment or line break", "the text after | or > begins on the next line, indented deeper"),
    ("chomping or indentation", "the text after | or > begins on the next line, indented deeper"),
    ("alphabetic or numeric character", "put a text that begins with & or * in quotation marks"),
    ("the expected '>'", "a config cannot have tags; remove the word that begins with !"),
)  # fmt: skip
"""Remedies, by words of the problem."""

NUMBER_KEY = (
    "a comma begins the next key here: write a decimal with a point, and a list in brackets, such as [1, 3, 8, 8]"
)
"""Remedy for keys that are numbers, as in ``{shape: 1, 3, 8, 8}`` and ``{top1: 0,97}``."""

LOOK = "check this line and the one before: each key has a colon and a space, and the keys of a mapping start in one column"


def yaml_problem(error: yaml.MarkedYAMLError, text: str) -> tuple[str, str]:
    """Return problem and remedy of invalid YAML."""
    problem = error.problem or error.context or ""
    if error.note:  # an error of tvmake
        return problem, error.note
    if "another document" in problem:
        return (
            "a second document begins here",
            "keep one; -c FILE -c FILE merges several files",
        )
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    rest = line[mark.column :] if mark else ""
    if problem == "second occurrence":
        first = error.context_mark.line + 1 if error.context_mark else 1
        name = _anchor(rest)
        return f"the anchor {name} is defined twice", f"line {first} has it too; rename one of them"
    if "undefined alias" in problem:
        name = _anchor(rest)
        remedy = f"put a text that begins with * in quotation marks; an alias must follow its anchor, &{name[1:]}"
        return f"not valid YAML: found undefined alias {name}", remedy
    before = lines[mark.line - 1] if mark and 0 < mark.line <= len(lines) else ""
    return f"not valid YAML: {problem}", _remedy(error, before, line, rest)


def spaced(text: str) -> str | None:
    """Return the remedy for a key whose value follows the colon without a space."""
    match = re.search(r"([\w.-]+:)([{\[])", text)
    return f"write a space after the colon: {match[1]} {match[2]}" if match else None


def _anchor(rest: str) -> str:
    match = re.match(r"[&*][^\s,\[\]{}]*", rest)
    return match[0] if match else "there"


def _remedy(error: yaml.MarkedYAMLError, before: str, line: str, rest: str) -> str:
    problem = error.problem or ""
    if "cannot start any token" in problem:
        is_indented_by_tab = "\t" in line[: len(line) - len(rest) + 1] and not line[: len(line) - len(rest)].strip()
        return (
            "indent with spaces: YAML does not allow tabs" if is_indented_by_tab else "put the text in quotation marks"
        )
    if "unhashable key" in problem:
        return (
            "templates are not expanded; write the value instead of {{ }}, or put it in quotation marks"
            if "{{" in line
            else "a key is a string; put one that begins with a bracket in quotation marks"
        )
    if rest.startswith("\ufeff") or line.startswith("\ufeff"):
        return "this line begins with a byte order mark, as in concatenated files; remove it"
    if remedy := next((remedy for words, remedy in REMEDIES if words in problem), None):
        return remedy
    if "${" in line:
        return "environment variables are not expanded; write the value instead of ${…}"
    if without_space := spaced(line):
        return without_space
    is_mapping_expected = "mapping values" in problem
    is_unexpected = "did not find expected" in problem or "expected" in problem
    if re.search(r":\s+[^\s'\"{\[]\S*:\s", line) and (is_mapping_expected or is_unexpected):
        return "put a text with a colon and a space in quotation marks, or remove the space"
    if re.match(r"\s*(//|/\*)", line) or re.match(r"\s*(//|/\*)", before):
        return "a comment begins with #"
    if error.context_mark is not None and (is_unexpected or "end of stream" in problem):
        began = error.context_mark.line + 1
        return f"check line {began}: an unclosed bracket or quotation mark begins there, or a wrong indentation"
    return LOOK
