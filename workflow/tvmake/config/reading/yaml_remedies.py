"""What is wrong with text that is not YAML, and what to write instead.

The library in C and the one in Python tell the same mistakes in other words; both are looked for.
"""

import re

import yaml

REMEDIES = (
    ("expected <document start>", "a config is YAML, with a colon and a space after each key; `tvmake init MODEL` writes one"),
    ("for merging", "<< takes an alias: write <<: *NAME, and &NAME before the mapping that is merged"),
    ("constructor for the tag", "a config has no tags; take it out, and lay several files over each other with -c FILE -c FILE"),
    ("undefined tag handle", "a config has no tags; take out what begins with !"),
    ("YAML document", "take out the line that begins with %YAML; a config needs none"),
    ("YAML directive", "take out the line that begins with %YAML; a config needs none"),
    ("directive name", "take out the line that begins with %, or put the text in quotation marks"),
    ("escape character", "a backslash is an escape in double quotation marks: write '…' instead of \"…\", or / for the backslash"),
    ("comment or line break", "the text after | or > begins in the next line, indented deeper"),
    ("chomping or indentation", "the text after | or > begins in the next line, indented deeper"),
    ("alphabetic or numeric character", "put a text that begins with & or * in quotation marks"),
    ("the expected '>'", "a config has no tags; take out what begins with !"),
)  # fmt: skip
"""What to do, by words of the problem."""

NUMBER_KEY = (
    "a comma begins the next key here: write a decimal with a point, and a list in brackets, such as [1, 3, 8, 8]"
)
"""What to do about keys that are numbers, as of ``{shape: 1, 3, 8, 8}`` and ``{top1: 0,97}``."""

LOOK = "look at this line and the one before: each key has a colon and a space, and keys of one mapping begin in one column"


def yaml_problem(error: yaml.MarkedYAMLError, text: str) -> tuple[str, str]:
    """What is wrong with text that is not YAML, and what to do about it."""
    problem = error.problem or error.context or ""
    if error.note:  # one of tvmake's own
        return problem, error.note
    if "another document" in problem:
        return (
            "holds a second document, which begins here",
            "keep one; -c FILE -c FILE lays several files over each other",
        )
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    rest = line[mark.column :] if mark else ""
    if problem == "second occurrence":
        first = error.context_mark.line + 1 if error.context_mark else 1
        name = _anchor(rest)
        return f"the anchor {name} is given twice", f"line {first} has it too; give one of them another name"
    if "undefined alias" in problem:
        name = _anchor(rest)
        remedy = f"put a text that begins with * in quotation marks; an alias stands after its anchor, &{name[1:]}"
        return f"not valid YAML: found undefined alias {name}", remedy
    before = lines[mark.line - 1] if mark and 0 < mark.line <= len(lines) else ""
    return f"not valid YAML: {problem}", _remedy(error, before, line, rest)


def spaced(text: str) -> str | None:
    """What to write for a key whose value follows without a space."""
    found = re.search(r"([\w.-]+:)([{\[])", text)
    return f"write a space after the colon: {found[1]} {found[2]}" if found else None


def _anchor(rest: str) -> str:
    found = re.match(r"[&*][^\s,\[\]{}]*", rest)
    return found[0] if found else "there"


def _remedy(error: yaml.MarkedYAMLError, before: str, line: str, rest: str) -> str:
    problem = error.problem or ""
    if "cannot start any token" in problem:
        is_indented_by_tab = "\t" in line[: len(line) - len(rest) + 1] and not line[: len(line) - len(rest)].strip()
        return "indent with spaces: YAML takes no tabs" if is_indented_by_tab else "put the text in quotation marks"
    if "unhashable key" in problem:
        return (
            "templates are not filled in; write what {{ }} stands for, or put it in quotation marks"
            if "{{" in line
            else "a key is a text; put one that begins with a bracket in quotation marks"
        )
    if rest.startswith("\ufeff") or line.startswith("\ufeff"):
        return "this line begins with a byte order mark, as where files are put together; take it out"
    if remedy := next((remedy for words, remedy in REMEDIES if words in problem), None):
        return remedy
    if "${" in line:
        return "variables of the environment are not replaced; write out what ${…} stands for"
    if without_space := spaced(line):
        return without_space
    is_mapping_expected = "mapping values" in problem
    is_unexpected = "did not find expected" in problem or "expected" in problem
    if re.search(r":\s+[^\s'\"{\[]\S*:\s", line) and (is_mapping_expected or is_unexpected):
        return "put a text that holds a colon and a space in quotation marks, or take out the space"
    if re.match(r"\s*(//|/\*)", line) or re.match(r"\s*(//|/\*)", before):
        return "a comment begins with #"
    if error.context_mark is not None and (is_unexpected or "end of stream" in problem):
        began = error.context_mark.line + 1
        return f"look at what begins in line {began}: a bracket, a quotation mark or an indentation that does not fit"
    return LOOK
