"""Show Snakemake's events: a line per finished job, a progress bar, and failures in full.

Snakemake loads log handlers as plug-ins. This module is one. :func:`run` registers it for its own call only, so plain
``snakemake`` neither sees nor imports it.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.progress import Progress
from rich.text import Text
from snakemake.logging import get_event
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from tvmake.cache.line import read_lines
from tvmake.engine.progress.bar import progress_bar
from tvmake.engine.progress.failures import failures, with_positions
from tvmake.engine.progress.job_log import ending, written_since
from tvmake.engine.progress.reasons import is_uncertain, kinds_of, why
from tvmake.engine.progress.snakemake_errors import start_error, translate
from tvmake.engine.progress.tuning import TuningProgress
from tvmake.engine.up_to_date.changes import Change, changes
from tvmake.engine.up_to_date.scope import NOTHING_TO_DO
from tvmake.errors import TvmakeError, print_error
from tvmake.plan.plan import Job
from tvmake.process.output import counted
from tvmake.report.console import SafeConsole
from tvmake.stages.registry import rules, searching_rules
from tvmake.storage.directories import SNAKEMAKE_STATE

PLUGIN = "tvmake"
GENERIC_LOGS = SNAKEMAKE_STATE / "cluster"
"""Logs of jobs on clusters other than Slurm, by the cluster's job name (see the profiles)."""

SHOWN = (
    "warning: cache ",
    "warning: int8: ",
    "warning: weights: ",
    "warning: source: ",
    "warning: precision: ",
    "warning: kernels: ",
    "warning: build.cuda_graph: ",
    "precision: ",
)
"""Beginnings of log lines that are shown once when a job ends."""

WARNING = "warning: "

EXAMINED = 500
"""Maximum number of jobs in a dry run whose changes are determined."""

BUDGET = "budget"
"""The rule that plans searches. The number of searches is known only when it has run."""

ALL = "all"
"""The rule that only collects the others."""

ALREADY_SHOWN = (
    "At least one job did not complete successfully",
    "Exiting because a job execution failed",
    "returned non-zero exit status",
    "died with <Signals",
    "Complete log",
    # From the Slurm plugin, if Slurm chooses the account.
    "No SLURM account given",
    "No account was given, not able to get a SLURM account",
    "Unable to guess SLURM account",
)
"""Snakemake's messages about failures that were shown with their cause."""


class Run:
    """State of this process's run. There is only one run, because Snakemake creates the handler itself."""

    quiet = False
    interrupted = False
    ended = False
    """Whether Ctrl-C or a signal stopped it."""
    made = False
    """Whether the run makes files, rather than showing something."""
    missing_inputs: Callable[[], TvmakeError | None] = staticmethod(lambda: None)
    """Returns the error for files of the config that do not exist; called if Snakemake reports missing files."""
    verbose = False
    named: Callable[[TvmakeError], TvmakeError] = staticmethod(lambda error: error)
    """Adds the position of the config key to an error."""
    translate: Callable[[str], str] = staticmethod(lambda text: text)
    """Writes keys in a message as the user's command has them."""
    jobs: Callable[[], Iterable[Job]] = staticmethod(tuple)
    """The jobs of the config, to determine their changes."""
    user_directory: Path
    """The user's directory: paths are shown relative to it."""
    logs: list[Path]
    """Logs of the started jobs, in that order."""
    is_stopping: Callable[[], bool] = staticmethod(lambda: False)
    """Whether a signal has stopped the run."""
    codes: set[int]
    """Exit codes of failed jobs and of Snakemake's own errors."""

    @classmethod
    def begin(
        cls,
        quiet: bool,
        verbose: bool,
        missing_inputs: Callable[[], TvmakeError | None],
        jobs: Callable[[], Iterable[Job]],
        named: Callable[[TvmakeError], TvmakeError],
        translate: Callable[[str], str],
        user_directory: Path,
    ) -> None:
        """Reset the state for a new run."""
        cls.quiet, cls.interrupted, cls.ended, cls.made, cls.codes = quiet, False, False, False, set()
        cls.verbose, cls.logs, cls.is_stopping = verbose, [], staticmethod(lambda: cls.interrupted)
        cls.missing_inputs = staticmethod(missing_inputs)
        cls.jobs = staticmethod(jobs)
        cls.named = staticmethod(named)
        cls.translate = staticmethod(translate)
        cls.user_directory = user_directory

    @classmethod
    def interrupt(cls) -> None:
        """Record a Ctrl-C."""
        cls.interrupted = True


class LogHandler(LogHandlerBase):
    """Prints job events, and other records from warning level on."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Called by Snakemake's base class after the settings are set."""
        self.console = SafeConsole(stderr=True, highlight=False)
        self.on_terminal = self.console.is_terminal  # rich reads the environment each time
        self.began = time.time()
        self.started: dict[int, float] = {}
        self.jobs: dict[int, str] = {}
        self.rules: dict[int, str] = {}
        self.logs: dict[int, list[str]] = {}
        self.groups: dict[str, list[int]] = {}
        self.failed_groups: set[int] = set()
        self.planned = 0
        self.uncertain = 0
        self.has_searches = False
        self.complained = False
        self.dry = bool(self.common_settings.dryrun)
        self.bar: Progress | None = None
        self.task: Any = None
        self.tuning = TuningProgress(None)
        self.failed_logs: set[str] = set()
        self.shown: set[str] = set()
        self.search_logs: dict[int, Path] = {}
        self.planned_jobs: dict[str, Job] | None = None
        # Before the first job starts: a job that starts loses its record.
        examined = islice(Run.jobs(), EXAMINED) if Run.verbose and not self.dry else ()
        self.changed = {name: differences for job in examined for differences in [changes(job)] for name in job.outputs}

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        event = get_event(record)
        data = record.__dict__
        if event == LogEvent.RUN_INFO:
            self._begin(data)
        elif event == LogEvent.JOB_INFO:
            self._job(data)
        elif event == LogEvent.GROUP_INFO:
            self.groups[str(data["group_id"])] = [int(job.jobid) for job in data["jobs"]]
        elif event == LogEvent.JOB_STARTED:
            for number in self._numbers(data):
                self.started[number] = time.monotonic()
        elif event == LogEvent.JOB_FINISHED:
            self._finished(data)
        elif event == LogEvent.PROGRESS and self.bar is not None:
            self.bar.update(self.task, completed=data["done"], total=data["total"])
        elif event == LogEvent.JOB_ERROR:
            self._failed([data], str(data.get("rule_msg") or ""), [])
        elif event == LogEvent.GROUP_ERROR:
            self._failed(data.get("job_error_info") or [], "", data.get("aux_logs") or [], group=True)
        elif event in (None, LogEvent.ERROR) and record.levelno >= logging.WARNING:
            self._complain(record)

    def close(self) -> None:
        """Stop the progress bar. After a complete dry run, print how many jobs would run."""
        if self.dry and not self.complained and not Run.interrupted:
            self._print(self._prediction())
        self.dry = False
        self.tuning.close()
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        super().close()

    def _begin(self, data: dict[str, Any]) -> None:
        total = int((data.get("stats") or {}).get("total", 0)) or sum(
            count for name, count in (data.get("per_rule_job_counts") or {}).items() if name != "total"
        )
        if not self.dry and not Run.quiet and total and self.on_terminal:
            self.bar = progress_bar(self.console)
            self.task = self.bar.add_task("", total=total)
            self.tuning = TuningProgress(self.bar)
            self.bar.start()

    def _job(self, data: dict[str, Any]) -> None:
        label = data.get("rule_msg") or _label(data)
        number = int(data["jobid"])
        self.jobs[number] = label
        self.rules[number] = str(data.get("rule_name") or "")
        self.logs[number] = [str(path) for path in data.get("log") or []]
        Run.logs += [Path(log) for log in self.logs[number] if not self.dry]
        self.started.setdefault(number, time.monotonic())
        if self.dry:
            if data.get("rule_name") != ALL:
                self.planned += 1
                kinds, differences = kinds_of(str(data.get("reason") or "")), self._changes(data)
                self.uncertain += is_uncertain(kinds) and not differences
                self.has_searches = self.has_searches or data.get("rule_name") == BUDGET
                reason = why(kinds, differences)
                if self.on_terminal:
                    self._print(Text.assemble(f"would {label}  ", (f"({reason})", "dim")))
                else:
                    print(f"would {label}  ({reason})", file=sys.stderr)  # ten times faster for thousands of jobs
            return
        if Run.verbose and data.get("rule_name") != ALL:
            kinds = kinds_of(str(data.get("reason") or ""))
            self._print(Text(f"  {label}: {why(kinds, self._changes(data))}", "dim"))
            if command := str(data.get("shellcmd") or ""):
                self._print(Text(f"    {' '.join(command.split())}", "dim"))
        if data.get("rule_name") in searching_rules():
            events = next((Path(str(path)) for path in data.get("log") or [] if str(path).endswith(".jsonl")), None)
            if events is not None:
                self.tuning.started(number, events, label)
                self.search_logs[number] = events.with_name(events.name.replace(".events.jsonl", ".log"))
        if self.bar is not None:
            self.bar.update(self.task, description=label)

    def _changes(self, data: dict[str, Any]) -> list[Change]:
        """Changes since a job last ran; none beyond the first :data:`EXAMINED` jobs."""
        if self.planned > EXAMINED:
            return []
        if self.planned_jobs is None:
            self.planned_jobs = {name: job for job in Run.jobs() for name in job.outputs}
        name = next((name for name in map(str, data.get("output") or ()) if name in self.planned_jobs), None)
        if name is None:
            return []
        return changes(self.planned_jobs[name]) if self.dry else self.changed.get(name, [])

    def _prediction(self) -> str:
        if not self.planned:
            return NOTHING_TO_DO
        jobs = counted(self.planned, "job")
        searches = ", plus the searches that tuning plans" if self.has_searches else ""
        if not self.uncertain:
            return f"{jobs} would run{searches}"
        certain = self.planned - self.uncertain
        return f"up to {jobs} would run{searches}: {certain} for sure, the others if the results of those change"

    def _print(self, text: str | Text, **style: Any) -> None:
        """Print a line of any length; the terminal wraps it."""
        self.console.print(text, soft_wrap=True, **style)

    def _finished(self, data: dict[str, Any]) -> None:
        for number in self._numbers(data):
            log = next(map(Path, self.logs.get(number, [])), None)
            origin = self.tuning.finished(number) or (_origin(log) if log else "")
            if not Run.quiet and not self.dry and self.jobs.get(number, ALL) != ALL:
                seconds = time.monotonic() - self.started.get(number, time.monotonic())
                self._print(
                    f"[green]✓[/green] {self.jobs[number]}  [dim]{seconds:.1f} s{origin and f', {origin}'}[/dim]"
                )
            if number in self.search_logs:
                for line in _lines(self.search_logs.pop(number), (WARNING,)):
                    self._print(f"  {line}", markup=False, style="yellow")
            for line in _lines(log, SHOWN) if log else ():
                # An unreachable cache concerns every step: show its line once.
                if line not in self.shown:
                    self.shown.add(line)
                    style = "yellow" if line.startswith(WARNING) else "dim"
                    self._print(f"  {Run.translate(line)}", markup=False, style=style)

    def _failed(
        self, infos: list[dict[str, Any]], message: str, cluster_logs: Sequence[str], group: bool = False
    ) -> None:
        """Show why a job failed, or a group of jobs that was submitted to a cluster as one.

        Args:
            message: the executor's message.
            cluster_logs: the cluster's logs of the group.
        """
        numbers = [int(info["jobid"]) for info in infos if info.get("jobid") is not None]
        stopped = Run.is_stopping() and not any(
            ending(Path(log)) == "failed" for info in infos for log in info.get("log") or []
        )
        if stopped or Run.interrupted or (not group and self.failed_groups.intersection(numbers)):
            # Snakemake reports the jobs of a group again, one by one.
            self.failed_groups.difference_update(numbers)
            return
        self.failed_groups.update(numbers if group else ())
        for number in numbers:
            self.tuning.finished(number)
        label = ", ".join(self.jobs.get(number) or self.rules.get(number, "job") for number in numbers)
        label = label or ", ".join(str(info.get("rule_name")) for info in infos)
        known = {path for number in numbers for path in self.logs.get(number, [])}
        written = [str(path) for info in infos for path in info.get("log") or [] if not str(path).endswith(".jsonl")]
        clusters = [path for path in written if known and path not in known] + list(cluster_logs)
        names = dict.fromkeys(str((info.get("aux") or {}).get("external_jobid")) for info in infos)
        clusters += [str(log) for name in names if (log := GENERIC_LOGS / f"{name}.log").is_file()]
        logs = [path for path in written if path not in clusters and path not in self.failed_logs]
        if not logs and written and not clusters:
            return
        self.failed_logs.update(logs)
        self._print(f"[red]✗[/red] {label}")
        rule = self.rules.get(numbers[0], "RULE") if numbers else "RULE"
        if group or message or clusters:
            # A job that did not start on its node leaves the logs of an earlier run.
            logs = [log for log in logs if written_since(Path(log), self.began)]
        for failure in failures(label, rule, message, logs, clusters, was_sent=group or bool(message)):
            # A lost store or device fails the search of every kernel with the same message.
            text = Run.translate(with_positions(failure.text, Run.named))
            self._print("  the same error" if failure.text in self.shown else text, markup=False)
            self.shown.add(failure.text)
            for shown in failure.logs:
                path = Path(shown).absolute()
                path = path.relative_to(Run.user_directory) if path.is_relative_to(Run.user_directory) else path
                self._print(f"  log: {path}", style="dim")
            if failure.code is not None:
                Run.codes.add(failure.code)

    def _complain(self, record: logging.LogRecord) -> None:
        text = str(record.getMessage()).strip()
        if Run.interrupted or not text:
            return
        self.complained = self.complained or record.levelno >= logging.ERROR
        if status := re.search(r"returned non-zero exit status (\d+)", text):
            Run.codes.add(int(status[1]))
        if any(known in text for known in ALREADY_SHOWN):
            return
        error = Run.missing_inputs() if "MissingInputException" in text else translate(text)
        if error is None and text.startswith("Error: ") and not Run.logs:
            error = start_error(text)
        error = error and Run.named(error)
        if error is None:
            self._print(text, markup=False)
        elif str(error) not in self.shown:
            self.shown.add(str(error))
            Run.codes.add(error.exit_code)
            print_error(error)

    def _numbers(self, data: dict[str, Any]) -> list[int]:
        value = data.get("job_id", data.get("jobid", data.get("jobs", data.get("job_ids"))))
        values = value if isinstance(value, list | tuple | set) else [value]
        numbers: list[int] = []
        for value in values:
            if isinstance(value, str) and not value.isdigit():  # a group's name
                numbers += self.groups.get(value, [])
            elif value is not None:
                numbers.append(int(value))
        return numbers


def _label(data: dict[str, Any]) -> str:
    """Label of a job without a message: its stage and its wildcards."""
    rule = str(data.get("rule_name") or "job")
    name = rules()[rule].stage.name if rule in rules() else rule
    return " ".join([name, *map(str, (data.get("wildcards") or {}).values())])


def _lines(log: Path, beginnings: tuple[str, ...]) -> list[str]:
    """The lines of a job's log with these beginnings."""
    try:
        return [line for line in log.read_text(errors="replace").splitlines() if line.startswith(beginnings)]
    except OSError:
        return []


def _origin(log: Path) -> str:
    """``from the cache`` if a job's log reports a hit."""
    try:
        return "from the cache" if any(line.cache == "hit" for line in read_lines(log.read_text())) else ""
    except (OSError, UnicodeDecodeError):
        return ""
