"""Making a locked run again: with which config, to which files, and whether they are the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tvmake.errors import InputError
from tvmake.lock.artifacts import Mismatch, hermetic_files, mismatches
from tvmake.lock.differences import Difference, causes
from tvmake.lock.document import Lock
from tvmake.plan.plan import Plan
from tvmake.storage.files import digest_bytes, write_text

MOST_CAUSES = 3


@dataclass(frozen=True)
class Outcome:
    """The result of repeating a locked run."""

    equal: int
    """Files that are byte for byte as locked."""
    fresh: int
    """How many of all were built now; the others existed."""
    wrong: list[Mismatch]


def frozen_layer(lock: Path) -> dict[str, Any]:
    """The config layer that uses records and layouts of a lock."""
    return {"tuning": {"frozen": str(lock)}}


def config_of(lock: Lock, directory: Path) -> Path:
    """Write the lock's own config to a directory, for use without another config."""
    text = yaml.safe_dump(dict(lock.origins.config), sort_keys=False, allow_unicode=True)
    path = directory / f"locked-{digest_bytes(text.encode())[:16]}.yaml"
    write_text(path, text)
    return path


def packages(plan: Plan) -> list[str]:
    """The outputs of a repeated run: every package, the files beside it, and their inputs."""
    return [*plan.results_of("package.provenance.json"), *plan.results_of("joined/package.tar")]


def modification_times(plan: Plan) -> dict[Path, int]:
    """The modification times of existing files, to find those that are rebuilt later."""
    return {file.path: file.path.stat().st_mtime_ns for file in hermetic_files(plan) if file.path.is_file()}


def compare(plan: Plan, lock: Lock, before: Mapping[Path, int]) -> Outcome:
    """Compare every file with the lock.

    Args:
        before: :func:`modification_times` before the run.
    """
    wrong = mismatches(plan, lock.artifacts)
    rebuilt = sum(modified != before.get(path) for path, modified in modification_times(plan).items())
    unequal = {mismatch.path for mismatch in wrong}
    return Outcome(sum(entry.path not in unequal for entry in lock.artifacts), rebuilt, wrong)


def explain(plan: Plan, outcome: Outcome, changes: list[Difference], lock: Path) -> InputError:
    """The error for a run that came out differently: the first file that differs, and why it may."""
    first = outcome.wrong[0]
    total = outcome.equal + len(outcome.wrong)
    problem = f"{first.how}; it is the first of {len(outcome.wrong)} of {total} files that are not as in {lock}"
    likely = causes(first, changes)
    if likely:
        reasons = "; ".join(difference.text for difference in likely[:MOST_CAUSES])
        more = f"; and {len(likely) - MOST_CAUSES} more" if len(likely) > MOST_CAUSES else ""
        remedy = f"likely because of {reasons}{more}"
    elif not outcome.fresh:
        remedy = "nothing was rebuilt, because all files existed; `--forceall` rebuilds them"
    else:
        remedy = f"no recorded difference explains it: stage {first.stage} may not be reproducible, which is a defect"
    return InputError(str(Path(plan.config.results) / first.path), problem, remedy)
