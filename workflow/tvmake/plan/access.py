"""Check that this process may read and write the files that earlier runs of a plan left."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tvmake.config.reading.load import one_or_many
from tvmake.errors import MachineError
from tvmake.plan.plan import Plan, Variant
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.permissions import how_to_permit

READING = os.R_OK
WRITING = os.R_OK | os.W_OK


def check_access(plan: Plan, variants: Iterable[Variant], wanted: int = READING) -> None:
    """Refuse directories of results and logs that cannot be read or written, for example those of another user's run.

    Their files would look missing.

    Args:
        plan: the config's plan.
        variants: variants whose files are checked.
        wanted: :data:`READING` or :data:`WRITING`.

    Raises:
        MachineError, ErrorList: a directory is not permitted.
    """
    roots = (plan.config.results, plan.config.logs, str(SNAKEMAKE_STATE))
    # Looking at all directories is faster than naming a plan's.
    if _is_denied(roots[2], wanted) or not all(map(_has_all, roots[:2], [wanted] * 2)):
        _check_written(plan, variants, wanted, roots)


def _check_written(plan: Plan, variants: Iterable[Variant], wanted: int, roots: Sequence[str]) -> None:
    files = plan.written_files(variants)
    names = {above for name in {*roots, *map(os.path.dirname, files)} for above in _chain(name, roots)}
    errors = []
    # Nothing is known of the contents of an unreadable directory.
    for name in sorted(names):
        if _is_denied(name, wanted):
            right = os.W_OK if os.access(name, os.R_OK | os.X_OK) else os.R_OK
            problem = "cannot be read" if right == os.R_OK else "cannot be written"
            errors.append(MachineError(name, f"the directory {problem}", how_to_permit(Path(name), right)))
    if errors:
        raise one_or_many(errors)


def _has_all(root: str, wanted: int) -> bool:
    """Whether a directory and all below it are permitted and none is a link, which this does not follow."""
    pending = [root] if os.path.isdir(root) else []  # noqa: PTH112
    try:
        while pending:
            name = pending.pop()
            if _is_denied(name, wanted):
                return False
            with os.scandir(name) as entries:
                directories = [entry for entry in entries if entry.is_dir()]
            if any(entry.is_symlink() for entry in directories):
                return False
            pending += [entry.path for entry in directories]
    except OSError:
        return False
    return True


def _is_denied(name: str, wanted: int) -> bool:
    """Whether a directory exists that is not permitted."""
    return os.path.isdir(name) and not os.access(name, wanted | os.X_OK)  # noqa: PTH112  # of thousands


def _chain(directory: str, roots: Sequence[str]) -> list[str]:
    """A directory and its parents, up to one of the roots."""
    chain = [directory]
    while chain[-1] not in ("", "/", *roots):
        chain.append(os.path.dirname(chain[-1]))  # noqa: PTH120  # of thousands
    return chain
