"""Snakemake's events as a person wants to see them: a line per finished job, a bar while it runs, failures in full.

Snakemake takes log handlers as plug-ins; this module is one, registered by :func:`run` for its own call only, so that
plain ``snakemake`` neither sees nor imports it.
"""

import argparse
import contextlib
import io
import logging
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from snakemake.logging import get_event
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from tvmake.cache.line import read_lines
from tvmake.cli import print_error
from tvmake.cli.failure import failures, written_since
from tvmake.cli.last_look import LastLook
from tvmake.cli.planned_jobs import planned_jobs
from tvmake.cli.rounds import make_in_rounds
from tvmake.cli.signals import ctrl_c_noted, signals_without_locks, termination
from tvmake.cli.snakemake_errors import translated, usage_error
from tvmake.cli.tuning_progress import TuningProgress
from tvmake.errors import DeviceError, TvmakeError
from tvmake.warm.pool import no_warm_servers, warm_servers

PLUGIN = "tvmake"
GENERIC_LOGS = Path(".snakemake") / "cluster"
"""Where the profiles for other clusters than Slurm have jobs write, by the job's name there."""

ALL = "all"
"""The rule that only gathers the others."""

SEARCHING = ("tune", "choose_layout")
"""The rules whose jobs write event logs."""

CACHED = ("import_model", "transform", "transform_candidate", "extract", "build", "export")
"""The rules whose results the cache may have."""

REASONS = {
    "Missing output files": "not made yet",
    "Input files updated by another job": "its inputs change",
    "Updated input files": "its inputs changed",
    "Params have changed since last execution": "its options, code or library versions changed",
    "Code has changed since last execution": "its rule changed",
    "Set of input files has changed since last execution": "it has other inputs now",
    "Forced execution": "forced",
}
"""Snakemake's reasons, in the words of the pipeline."""

SAID_ALREADY = (
    "At least one job did not complete successfully",
    "Exiting because a job execution failed",
    "returned non-zero exit status",
    "died with <Signals",
    "Complete log",
    # Of the Slurm plugin, for those who let Slurm choose their account.
    "No SLURM account given",
    "No account was given, not able to get a SLURM account",
    "Unable to guess SLURM account",
)
"""Snakemake's words for failures that were shown with their cause."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

INSTEAD_OF_RUNNING = (
    "lint", "list_rules", "list_target_rules", "print_compilation", "dag", "rulegraph", "filegraph", "d3dag", "unlock",
    "cleanup_metadata", "cleanup_shadow", "list_changes", "list_input_changes", "list_params_changes", "list_untracked",
    "summary", "detailed_summary", "archive", "delete_all_output", "delete_temp_output", "generate_unit_tests",
    "containerize", "report", "touch", "dryrun",
)  # fmt: skip
"""Snakemake's options that do something else than make files."""


class Run:
    """What is known of the run that this process is at: there is one, and Snakemake makes the handler itself."""

    quiet = False
    interrupted = False
    made = False
    """Whether files were to be made, rather than something shown."""
    missing_inputs: Callable[[], TvmakeError | None] = staticmethod(lambda: None)
    """Names the config's files that do not exist, for when Snakemake finds that some are missing."""
    last_look: LastLook | None = None
    """Of a run on this machine."""
    codes: set[int]
    """Exit codes of the jobs that failed, and of refusals by Snakemake itself."""


def run(
    arguments: list[str],
    quiet: bool,
    warm: bool,
    missing_inputs: Callable[[], TvmakeError | None],
    obstacle: Callable[[argparse.Namespace], TvmakeError | None],
    has_results: bool = False,
    is_whole: bool = False,
) -> int:
    """Run Snakemake with this handler.

    Args:
        is_whole: whether everything is asked for, and nothing else said.
        has_results: whether there are files of an earlier run.
        obstacle: why what Snakemake understood of the arguments cannot work, asked before files are made.

    Returns:
        0; the exit code that all failures share, when they are the user's (1), the command line's (2) or the
        machine's (3); 130 after Ctrl-C; else 1.
    """
    from snakemake.cli import args_to_api, parse_args, print_exception

    from tvmake.lean_files import ask_about_files_leanly
    from tvmake.lean_planning import plan_leanly
    from tvmake.lean_scheduling import schedule_leanly
    from tvmake.lean_start import parsed_leanly, start_leanly

    start_leanly()
    ask_about_files_leanly()
    plan_leanly()
    schedule_leanly()
    signals_without_locks()
    Run.quiet, Run.interrupted, Run.codes, Run.missing_inputs = quiet, False, set(), staticmethod(missing_inputs)
    LoggerPluginRegistry().register_plugin(PLUGIN, sys.modules[__name__])
    # Snakemake announces the profile it found before any log handler is in place.
    announced = io.StringIO()
    try:
        with contextlib.redirect_stderr(announced):
            parser, args = parsed_leanly(parse_args, [*arguments, "--logger", PLUGIN])
    except SystemExit as exit_:
        if exit_.code:
            raise usage_error(announced.getvalue()) from None
        return 0
    Run.made = not any(getattr(args, name, None) for name in INSTEAD_OF_RUNNING)
    Run.last_look = None
    if Run.made and (error := obstacle(args)):
        raise error
    # Jobs of other executors may run elsewhere, and their memory is accounted to them.
    local = args.executor in (None, "local")
    look = LastLook(lambda part: planned_jobs(part, parser), lambda part: args_to_api(part, parser))
    with (
        ctrl_c_noted(_interrupted),
        termination() as terminated,
        warm_servers() if warm and local else no_warm_servers(),
    ):
        try:
            succeeded = (
                make_in_rounds(
                    args,
                    has_results,
                    look.plan,
                    look.make,
                    lambda: Run.interrupted or terminated(),
                )
                if Run.made
                else args_to_api(args, parser)
            )
            if Run.made and local and succeeded:
                Run.last_look = look
                if is_whole and not terminated():
                    look.confirm(args)
        except KeyboardInterrupt:
            succeeded = False
        except Exception as error:  # noqa: BLE001  # Snakemake's own way to report what it raises
            print_exception(error)
            succeeded = False
    if Run.interrupted:
        print("interrupted; what is finished is kept, run the same command to go on", file=sys.stderr)
        return INTERRUPTED
    if succeeded:
        return 0
    return Run.codes.pop() if len(Run.codes) == 1 and Run.codes <= {1, 2, DeviceError.exit_code} else 1


def _interrupted() -> None:
    Run.interrupted = True


class LogHandler(LogHandlerBase):
    """Prints job events; everything else only at warning level and above."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Called by Snakemake's base class once settings are in place."""
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.on_terminal = self.console.is_terminal  # rich asks the environment each time
        self.began = time.time()
        self.started: dict[int, float] = {}
        self.jobs: dict[int, str] = {}
        self.rules: dict[int, str] = {}
        self.logs: dict[int, list[str]] = {}
        self.groups: dict[str, list[int]] = {}
        self.failed_groups: set[int] = set()
        self.planned = 0
        self.complained = False
        self.dry = bool(self.common_settings.dryrun)
        self.bar: Progress | None = None
        self.task: Any = None
        self.tuning = TuningProgress(None)
        self.failed_logs: set[str] = set()
        self.said: set[str] = set()
        self.search_logs: dict[int, Path] = {}
        self.cached_logs: dict[int, Path] = {}

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
        """End the progress bar; after a dry run that came to its end, say how much there is to do."""
        if self.dry and not self.complained and not Run.interrupted:
            self.console.print(
                f"{self.planned} jobs would run" if self.planned else "nothing to do: everything is up to date"
            )
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
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task("", total=total)
            self.tuning = TuningProgress(self.bar)
            self.bar.start()

    def _job(self, data: dict[str, Any]) -> None:
        label = data.get("rule_msg") or data.get("rule_name") or "job"
        number = int(data["jobid"])
        self.jobs[number] = label
        self.rules[number] = str(data.get("rule_name") or "")
        self.logs[number] = [str(path) for path in data.get("log") or []]
        self.started.setdefault(number, time.monotonic())
        if self.dry:
            if data.get("rule_name") != ALL:
                self.planned += 1
                why = _why(str(data.get("reason") or ""))
                if self.on_terminal:
                    self.console.print(f"would {label}  [dim]({why})[/dim]")
                else:
                    print(f"would {label}  ({why})", file=sys.stderr)  # ten times as quick, for thousands of jobs
            return
        if data.get("rule_name") in SEARCHING:
            events = next((Path(str(path)) for path in data.get("log") or [] if str(path).endswith(".jsonl")), None)
            if events is not None:
                self.tuning.started(number, events, label)
                self.search_logs[number] = events.with_name(events.name.replace(".events.jsonl", ".log"))
        if data.get("rule_name") in CACHED and data.get("log"):
            self.cached_logs[number] = Path(str(data["log"][0]))
        if self.bar is not None:
            self.bar.update(self.task, description=label)

    def _finished(self, data: dict[str, Any]) -> None:
        for number in self._numbers(data):
            cached = self.cached_logs.pop(number, None)
            how = self.tuning.finished(number) or (_origin(cached) if cached else "")
            if not Run.quiet and not self.dry and self.jobs.get(number, ALL) != ALL:
                seconds = time.monotonic() - self.started.get(number, time.monotonic())
                self.console.print(
                    f"[green]✓[/green] {self.jobs[number]}  [dim]{seconds:.1f} s{how and f', {how}'}[/dim]"
                )
            if number in self.search_logs:
                for line in _warnings(self.search_logs.pop(number)):
                    self.console.print(f"  {line}", markup=False, style="yellow")
            for line in _warnings(cached) if cached else ():
                # A cache that is away is away for every step.
                if line.startswith("warning: cache ") and line not in self.said:
                    self.said.add(line)
                    self.console.print(f"  {line}", markup=False, style="yellow")

    def _failed(self, infos: list[dict[str, Any]], said: str, cluster_logs: Sequence[str], group: bool = False) -> None:
        """Show why a job failed, or a group of jobs that went to a cluster as one.

        Args:
            said: the executor's own words.
            cluster_logs: logs of the group, which are the cluster's.
        """
        numbers = [int(info["jobid"]) for info in infos if info.get("jobid") is not None]
        if Run.interrupted or (not group and self.failed_groups.intersection(numbers)):
            # Snakemake reports a group's jobs once more, one by one.
            self.failed_groups.difference_update(numbers)
            return
        self.failed_groups.update(numbers if group else ())
        for number in numbers:
            self.tuning.finished(number)
        label = ", ".join(self.jobs.get(number) or self.rules.get(number, "job") for number in numbers)
        label = label or ", ".join(str(info.get("rule_name")) for info in infos)
        own = {path for number in numbers for path in self.logs.get(number, [])}
        written = [str(path) for info in infos for path in info.get("log") or [] if not str(path).endswith(".jsonl")]
        clusters = [path for path in written if own and path not in own] + list(cluster_logs)
        names = dict.fromkeys(str((info.get("aux") or {}).get("external_jobid")) for info in infos)
        clusters += [str(log) for name in names if (log := GENERIC_LOGS / f"{name}.log").is_file()]
        logs = [path for path in written if path not in clusters and path not in self.failed_logs]
        if not logs and written and not clusters:
            return
        self.failed_logs.update(logs)
        self.console.print(f"[red]✗[/red] {label}")
        rule = self.rules.get(numbers[0], "RULE") if numbers else "RULE"
        if group or said or clusters:
            # A job that did not start on its node leaves the logs of an earlier run.
            logs = [log for log in logs if written_since(Path(log), self.began)]
        for failure in failures(label, rule, said, logs, clusters, was_sent=group or bool(said)):
            # A store or a device that is lost fails every kernel's search in the same words.
            self.console.print("  the same error" if failure.text in self.said else failure.text, markup=False)
            self.said.add(failure.text)
            for log in failure.logs:
                self.console.print(f"  log: {log}", style="dim")
            if failure.code is not None:
                Run.codes.add(failure.code)

    def _complain(self, record: logging.LogRecord) -> None:
        text = str(record.getMessage()).strip()
        if Run.interrupted or not text:
            return
        self.complained = self.complained or record.levelno >= logging.ERROR
        if status := re.search(r"returned non-zero exit status (\d+)", text):
            Run.codes.add(int(status[1]))
        if any(known in text for known in SAID_ALREADY):
            return
        error = Run.missing_inputs() if "MissingInputException" in text else translated(text)
        if error is None:
            self.console.print(text, markup=False)
        elif str(error) not in self.said:
            self.said.add(str(error))
            Run.codes.add(error.exit_code)
            print_error(error)

    def _numbers(self, data: dict[str, Any]) -> list[int]:
        value = data.get("job_id", data.get("jobid", data.get("jobs", data.get("job_ids"))))
        values = value if isinstance(value, list | tuple | set) else [value]
        found: list[int] = []
        for one in values:
            # A group has a name of its own.
            found += self.groups.get(str(one), []) if isinstance(one, str) and not one.isdigit() else [one]
        return [int(number) for number in found if number is not None]


def _warnings(log: Path) -> list[str]:
    """The ``warning:`` lines of a job's log."""
    try:
        return [line for line in log.read_text(errors="replace").splitlines() if line.startswith("warning: ")]
    except OSError:
        return []


def _origin(log: Path) -> str:
    """``from the cache``, where a job's log says that its result is."""
    try:
        return "from the cache" if any(line.cache == "hit" for line in read_lines(log.read_text())) else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _why(reason: str) -> str:
    """Snakemake's reason without its lists: ``output missing``, ``inputs change`` …"""
    kinds = [part.partition(":")[0].strip() for part in reason.replace("\n", " ").split(";")]
    return ", ".join(REASONS.get(kind, kind.lower()) for kind in dict.fromkeys(kinds) if kind)
