"""Snakemake's questions about every file of every job, answered in fewer steps.

A plan of 10,000 jobs names 50,000 files and asks a million times what is known of them. The answers are Snakemake's own; where
a file is other than plain (kept in a storage, given by a function, with path variables), Snakemake is asked. As in ``by_content``,
its functions are replaced, since there are no options for this. It concerns ``tvmake make`` only.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import lru_cache
from typing import Any

import snakemake.api  # its modules import each other, which works from this one on
import snakemake.io
from snakemake.exceptions import ProtectedOutputException
from snakemake.io import AnnotatedString, _IOFile
from snakemake.iocontainers import AttributeGuard, Namedlist
from snakemake.jobs import Job
from snakemake_interface_storage_plugins.io import WILDCARD_REGEX

STORED = "storage_object"
"""The flag of a file that is kept elsewhere."""

SIGNS = ("//", "\n", "{")
"""What makes Snakemake look twice at a name."""

PATTERNS = 4_096
"""Patterns of file names that are kept in memory: there are a few for each rule."""

RESERVED_NAMES = ("index", "sort")
"""Names of a list's methods, which Snakemake guards until an item bears them."""

_is_flagged, _exists, _check = snakemake.io.is_flagged, _IOFile.exists, _IOFile.check
_with_wildcards, _named_list = _IOFile.apply_wildcards, Namedlist.__init__
_oldest_output, _missing_output, _check_protected = (
    Job.output_mintime.fget,
    Job.missing_output,
    Job.check_protected_output,
)
_guards = {name: AttributeGuard(name) for name in RESERVED_NAMES}


def ask_about_files_leanly() -> None:
    """Have Snakemake answer this way, in this process."""
    for name, module in list(sys.modules.items()):
        if name.startswith("snakemake.") and getattr(module, "is_flagged", None) is _is_flagged:
            module.is_flagged = _has_flag
    _IOFile.exists, _IOFile.check, _IOFile.apply_wildcards = _is_there, _warn_of_its_name, _named_by
    _IOFile.is_storage = property(_is_stored)
    Namedlist.__init__ = _make_list
    Job.output_mintime = property(_when_the_oldest_was_made)
    Job.missing_output, Job.check_protected_output = _outputs_not_there, _refuse_protected_outputs


def _has_flag(value: Any, flag: str) -> bool:
    """Snakemake asks an abstract class whether the value may have flags, then the value for what its class keeps as they are."""
    text = value._file if type(value) is _IOFile else value
    if type(text) is AnnotatedString:
        return bool(text._flags.get(flag))
    return type(text) is not str and _is_flagged(value, flag)


def _is_stored(self: Any) -> bool:
    return _has_flag(self._file, STORED)


def _is_plain(file: Any) -> bool:
    """Whether it is a name in the file system, and known already."""
    text = file._file
    if type(text) is AnnotatedString:
        return text.callable is None and STORED not in text._flags
    return not file._is_callable and not _is_stored(file)


async def _is_there(self: Any) -> bool:
    """What is known of the files is kept by their names, not by files, which are slow to compare."""
    cache = self.rule.workflow.iocache
    name, known = self._file, cache.exists_local
    if not cache.active or not _is_plain(self) or "//" in name:
        return await _exists(self)
    there = dict.get(known, name)
    if there is None:
        if name.rpartition("/")[0] in known.has_inventory:
            return False
        known[name] = there = os.path.exists(name)  # noqa: PTH110  # names are compared as they are
    return there


def _warn_of_its_name(self: Any) -> None:
    """Snakemake looks for six kinds of mistakes, the signs of which are looked for here."""
    name = self._file
    if not isinstance(name, str) or not name or name[0] in ". " or name[-1] == " " or any(s in name for s in SIGNS):
        _check(self)


def _named_by(self: Any, wildcards: Mapping[str, Any]) -> Any:
    """The file that a pattern names for these wildcards, with the pattern's flags."""
    if not _is_plain(self):
        return _with_wildcards(self, wildcards)
    pattern = self._file
    name = str(pattern)
    if "{" in name:
        form, names = _form(name)
        try:
            name = form % tuple([wildcards[wildcard] for wildcard in names])
        except KeyError:
            return _with_wildcards(self, wildcards)
    if "<" in name or name.endswith("/"):  # a path variable, a directory
        return _with_wildcards(self, wildcards)
    text: Any = str.__new__(AnnotatedString, name)
    text.callable = None
    text._flags = self.flags.copy()
    file = str.__new__(_IOFile, name)
    file._is_callable, file._file, file.rule = False, text, self.rule
    file._regex = file._wildcard_constraints = None
    return file


@lru_cache(PATTERNS)
def _form(pattern: str) -> tuple[str, tuple[str, ...]]:
    """A pattern as Python's ``%`` takes it, and the wildcards that it names."""
    parts, names, end = list[str](), list[str](), 0
    for match in WILDCARD_REGEX.finditer(pattern):
        parts += [pattern[end : match.start()].replace("%", "%%"), "%s"]
        names.append(match["name"])
        end = match.end()
    return "".join(parts) + pattern[end:].replace("%", "%%"), tuple(names)


def _make_list(self: Any, toclone: Any = None, fromdict: Mapping[str, Any] | None = None, **how: Any) -> None:
    """Of the lists of a plan, five for each job, only the items and names differ."""
    if any(how.values()):
        _named_list(self, toclone, fromdict, **how)
        return
    list.__init__(self, () if toclone is None else toclone)
    names = dict[str, tuple[int, int | None]]()
    itself = self.__dict__
    itself.update(_guards, _names=names, _allowed_overrides=list(RESERVED_NAMES))
    if isinstance(toclone, Namedlist):
        self._take_names(toclone._get_names())
    for name, item in (fromdict or {}).items():
        self.append(item)
        if hasattr(type(self), name):
            self._add_name(name)  # refused, but for those of RESERVED_NAMES
        else:
            names[name] = len(self) - 1, None
            itself[name] = item


async def _when_the_oldest_was_made(self: Any) -> float | None:
    """Snakemake makes a task for each file. Only those in a storage are worth waiting for together."""
    if not all(_is_plain(file) for file in self.output):
        return await _oldest_output(self)
    files = [*self.output, self.benchmark] if self.benchmark else self.output
    times = [(await file.mtime()).local_or_storage() for file in files if await file.exists()]
    return min(times) if times else None


async def _outputs_not_there(self: Any, requested: Iterable[Any]) -> AsyncIterator[Any]:
    """Without a generator for each file."""
    for file in requested:
        output = self.output_by_path.get(str(file), file)
        if _has_flag(output, "pipe") or _has_flag(output, "service") or not await output.exists():
            yield output


async def _refuse_protected_outputs(self: Any) -> None:
    """Without a task for each file."""
    if not all(_is_plain(file) for file in self.output):
        await _check_protected(self)
    elif protected := [file for file in self.output if await file.exists() and await file.protected()]:
        raise ProtectedOutputException(self, protected)
