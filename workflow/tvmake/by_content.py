"""Snakemake goes by what files contain, whatever their times say.

By itself it looks at an input's content only where the input is newer than what was made of it, and it refuses results that
are older than their inputs. A model that is copied with its old time (``cp -p``, ``rsync -a``, ``tar``, a move) would go
unseen, and so would a changed intermediate file where the clocks of two machines differ. The Snakefile has Snakemake look at
the content of every input. There is no option for that, so methods of its own are wrapped here.
"""

import os
import stat
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import snakemake.api  # noqa: F401  # its modules import each other, which works from this one on
from snakemake.dag import DAG
from snakemake.io import _IOFile
from snakemake.persistence import PersistenceBase
from snakemake.persistence.file import FilePersistence

from tvmake.artifact import made_directories
from tvmake.artifact.known_digests import KnownDigests

STATE = Path(".snakemake") / "tvmake-digests.json"

ALGORITHM = "sha256"
"""What Snakemake records."""


class ByContent:
    """What is known of this directory's files, and the workflow that Snakemake is at."""

    known: KnownDigests | None = None
    workflow: Any = None
    compared: dict[str, bool]
    digests: dict[str, str]
    """What has been found of files in this dry run, which changes none."""
    begun: dict[Any, dict[str, str]]
    """By job, the digests of its sources as it began: whoever edits one meanwhile wants it made again."""


_AS_READ: ContextVar[dict[str, str]] = ContextVar("as_read", default={})  # noqa: B039  # never written
"""Digests that the sources of the job in hand had when it began."""

_is_newer, _checksum, _is_eligible = _IOFile.is_newer, _IOFile.checksum, _IOFile.is_checksum_eligible
_input_checksums, _check_times = PersistenceBase.input_checksums, DAG.check_output_mtime
_started, _finished = PersistenceBase.started, PersistenceBase.finished


def compare_by_content(workflow: Any) -> None:
    """Have Snakemake compare the content of every input with what its results were made of.

    Files larger than its ``max-checksum-file-size`` still go by their times.
    """
    ByContent.known, ByContent.workflow, ByContent.begun = KnownDigests(STATE.absolute()), workflow, {}
    ByContent.compared, ByContent.digests = {}, {}
    _IOFile.is_newer = _may_have_changed
    _IOFile.checksum = _known_checksum
    _IOFile.is_checksum_eligible = _has_checksum
    PersistenceBase.input_checksums = _recorded
    PersistenceBase.started, PersistenceBase.finished = _note_sources, _record
    DAG.check_output_mtime = _check_times_that_count


def keep_digests() -> None:
    """Keep what was read for the next run."""
    if ByContent.known is not None:
        ByContent.known.save()


def files_of_jobs() -> tuple[set[str], set[str]] | None:
    """The inputs and the outputs of all jobs that Snakemake planned last in this process.

    None where what it said of them need not hold: files are elsewhere, or sources were not compared as they are now.
    """
    workflow = ByContent.workflow
    if workflow is None or ByContent.known is None or not isinstance(workflow.persistence, FilePersistence):
        return None
    jobs = list(workflow.dag.jobs)
    inputs = {file for job in jobs for file in job.input}
    outputs = {file for job in jobs for file in job.output}
    sources = inputs - outputs
    if any(file.is_storage for file in inputs | outputs):
        return None
    if not all(ByContent.known.is_known(Path(str(file))) for file in sources if _is_compared(file)):
        return None
    return {str(file) for file in inputs}, {str(file) for file in outputs}


def _is_compared(file: Any) -> bool:
    settings = ByContent.workflow and ByContent.workflow.dag_settings  # set after the Snakefile is read
    if not settings or file.is_storage or file.is_ancient:
        return False
    name = str(file)
    if name not in ByContent.compared or not ByContent.workflow.dryrun:
        ByContent.compared[name] = _has_content(name, settings.max_checksum_file_size)
    return ByContent.compared[name]


def _has_content(name: str, most_bytes: int) -> bool:
    try:
        known = os.stat(name)  # noqa: PTH116  # asked for every input of every job
    except FileNotFoundError:
        return False
    is_file = stat.S_ISREG(known.st_mode) and known.st_size <= most_bytes
    return is_file or stat.S_ISDIR(known.st_mode)


async def _may_have_changed(self: Any, time: float) -> bool:
    """Snakemake looks at the content of inputs for which this is so."""
    return _is_compared(self) or await _is_newer(self, time)


async def _has_checksum(self: Any, threshold: int) -> bool:
    return _is_compared(self) or await _is_eligible(self, threshold)


async def _known_checksum(self: Any, threshold: int | None = None, force: bool = False, algorithm: Any = None) -> Any:
    if algorithm in (None, ALGORITHM) and _is_compared(self):
        return _AS_READ.get().get(str(self)) or _digest(self)
    return await _checksum(self, threshold, force, algorithm)


def _recorded(self: Any, job: Any, input_path: Any) -> set[Any]:
    found = _input_checksums(self, job, input_path)
    if found == {None} and _is_compared(input_path) and not _is_later(input_path, job):
        # Nobody has noted what these results were made of, so only times can tell.
        return {_digest(input_path)}
    return found


def _note_sources(self: Any, job: Any, external_jobid: str | None = None) -> None:
    made = {str(file) for files in self.dag.dependencies[job].values() for file in files}
    sources = [file for file in job.input if str(file) not in made and _is_compared(file)]
    ByContent.begun[job] = {str(file): _digest(file) for file in sources}
    _started(self, job, external_jobid)


async def _record(self: Any, job: Any) -> None:
    token = _AS_READ.set(ByContent.begun.pop(job, {}))
    try:
        await _finished(self, job)
        made_directories.note([Path(str(file)) for file in job.output])
    finally:
        _AS_READ.reset(token)


async def _check_times_that_count(self: Any, job: Any, expanded_output: Any) -> None:
    if not all(_is_compared(file) for file in job.input):
        await _check_times(self, job, expanded_output)


def _digest(file: Any) -> str:
    assert ByContent.known is not None
    name = str(file)
    if name not in ByContent.digests or not ByContent.workflow.dryrun:
        ByContent.digests[name] = f"{ALGORITHM}:{ByContent.known.digest(Path(name))}"
    return ByContent.digests[name]


def _is_later(file: Any, job: Any) -> bool:
    made = [os.stat(str(output)).st_mtime for output in job.output if os.path.exists(str(output))]  # noqa: PTH110, PTH116
    return not made or Path(str(file)).stat().st_mtime > min(made)
