"""One run of Snakemake for ``tvmake make``: its rounds, and the record that everything is up to date."""

import argparse
import contextlib
import io
import signal
import sys
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

from snakemake.cli import args_to_api, parse_args, print_exception
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from tvmake.engine.failure_report import discard_unfinished_report
from tvmake.engine.interrupts import on_stop_signal, termination
from tvmake.engine.patches import log_queue, sigterm_lock
from tvmake.engine.progress import handler
from tvmake.engine.progress.handler import Run
from tvmake.engine.progress.job_log import note_stopped
from tvmake.engine.progress.snakemake_errors import bad_option, usage_error
from tvmake.engine.run_mutex import check_snakemake_lock
from tvmake.engine.state_directory import check_state_dir
from tvmake.engine.up_to_date.early_cutoff import make_in_rounds
from tvmake.engine.up_to_date.metadata import remove_damaged_records
from tvmake.engine.up_to_date.noop import keep_answer, up_to_date_by_records
from tvmake.engine.up_to_date.outdated import outdated_results, was_made
from tvmake.engine.up_to_date.planned_jobs import PlannedJob, planned_jobs
from tvmake.engine.up_to_date.run_fingerprint import RunFingerprint
from tvmake.engine.up_to_date.scope import UpToDate, jobs_of, needed_for, skip_variants
from tvmake.engine.up_to_date.source_changes import SourceChangeMonitor
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.errors import DeviceError, TvmakeError
from tvmake.plan.plan import Plan
from tvmake.process.forkserver.pool import no_warm_servers
from tvmake.process.garbage import collect_rarely
from tvmake.process.stopping import stop
from tvmake.stages.preload import warm_steps

INSTEAD_OF_RUNNING = (
    "lint", "list_rules", "list_target_rules", "print_compilation", "dag", "rulegraph", "filegraph", "d3dag", "unlock",
    "cleanup_metadata", "cleanup_shadow", "list_changes", "list_input_changes", "list_params_changes", "list_untracked",
    "summary", "detailed_summary", "archive", "delete_all_output", "delete_temp_output", "generate_unit_tests",
    "containerize", "report", "touch", "dryrun",
)  # fmt: skip
"""Snakemake's options that do something other than making files."""

READY_JOBS = 500
"""Maximum number of ready jobs passed to the scheduler at once: Snakemake determines all their input sizes each time."""

MOST_SCOPES = 5
"""Maximum number of times that results may concern variants that were left out (by a shared budget)."""


@dataclass(frozen=True)
class Request:
    """What a run makes, and how."""

    plan: Plan
    config_files: Sequence[Path]
    """The files that the plan was read from."""
    arguments: Sequence[str]
    """Snakemake's arguments."""
    quiet: bool
    verbose: bool
    warm: bool
    """Whether steps are forked from processes that have TVM or torch loaded."""
    stop_early: bool
    """Whether no more jobs start after the first failure, even if profiles let independent jobs continue."""
    has_results: bool
    """Whether files of an earlier run exist."""
    fingerprint: RunFingerprint | None
    """Fingerprint of a run for everything; None if it cannot be determined or not everything is requested."""
    left_out: UpToDate
    """Variants and report that are known to be up to date."""
    read_fingerprint: Callable[[], RunFingerprint | None]
    """Reads the current fingerprint."""
    missing_inputs: Callable[[], TvmakeError | None]
    """Returns the error for files of the config that do not exist; called if Snakemake reports missing files."""
    named: Callable[[TvmakeError], TvmakeError]
    """Adds the position of the config key to an error."""
    translate: Callable[[str], str]
    """Writes keys in a message as the user's command has them."""
    user_directory: Path
    """The user's directory; the run may use another one."""
    obstacle: Callable[[argparse.Namespace], TvmakeError | None]
    """Returns why Snakemake's parsed arguments cannot work; called before files are made."""


def run(request: Request) -> int:
    """Run Snakemake for a request.

    Returns:
        0; the exit code that all failures share, when they are the user's (1), the command line's (2) or the
        machine's (3); else 1.

    Raises:
        KeyboardInterrupt: the run was stopped before everything was made.
        TvmakeError: the arguments are invalid, or the run cannot work.
    """
    collect_rarely()
    sigterm_lock.apply()
    log_queue.apply()
    Run.begin(
        request.quiet,
        request.verbose,
        request.missing_inputs,
        lambda: jobs_of(request.plan, request.plan.variants),
        request.named,
        request.translate,
        request.user_directory,
    )
    parsed = _parse_arguments(request.arguments)
    if parsed is None:
        return 0
    args, parser = parsed
    args.keep_going = args.keep_going and not request.stop_early
    Run.made = not any(getattr(args, name, None) for name in INSTEAD_OF_RUNNING)
    if Run.made and (error := request.obstacle(args)):
        raise error
    check_state_dir()
    remove_damaged_records()
    # Jobs of other executors may run elsewhere, where their memory is counted.
    local = args.executor in (None, "local")
    with (
        on_stop_signal(Run.interrupt),
        termination() as terminated,
        warm_steps() if request.warm and local and not args.software_deployment_method else no_warm_servers(),
    ):
        Run.is_stopping = staticmethod(lambda: Run.interrupted or terminated())
        try:
            succeeded = _Maker(request, args, parser, Run.is_stopping).make(local)
        except KeyboardInterrupt:
            succeeded = False
        except TvmakeError:
            raise
        except Exception as error:  # noqa: BLE001  # Snakemake reports its exceptions this way
            if not Run.interrupted:
                print_exception(error)
            succeeded = False
        finally:
            Run.ended = Run.is_stopping()
            known_digests().save()
    if succeeded and not Run.interrupted:
        return 0
    if Run.ended:
        stopped = stop(signal.SIGTERM)
        if local:
            note_stopped(Run.logs)
        raise stopped
    return Run.codes.pop() if len(Run.codes) == 1 and Run.codes <= {1, 2, DeviceError.exit_code} else 1


def _parse_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, argparse.ArgumentParser] | None:
    """Snakemake's parsed arguments, with tvmake's plugins; None if it only printed something."""
    LoggerPluginRegistry().register_plugin(handler.PLUGIN, handler)
    # Snakemake prints the profile before any log handler exists.
    announced = io.StringIO()
    try:
        with contextlib.redirect_stderr(announced):
            parser, args = parse_args([*arguments, "--logger", handler.PLUGIN])
    except SystemExit as exit_:
        if exit_.code:
            raise usage_error(announced.getvalue()) from None
        return None
    except Exception as error:  # Snakemake's option parsers raise anything
        raise bad_option(error, arguments) from error
    if args.executor in (None, "local"):
        args.scheduler_subsample = args.scheduler_subsample or READY_JOBS
        # Local jobs need no start rate limit, and its timers keep a core busy.
        args.max_jobs_per_timespan = None
    return args, parser


class _Maker:
    """Runs Snakemake for everything that is not known to be up to date, until nothing is left."""

    def __init__(
        self,
        request: Request,
        args: argparse.Namespace,
        parser: argparse.ArgumentParser,
        is_stopping: Callable[[], bool],
    ):
        self._request, self._args, self._parser = request, args, parser
        self._is_stopping = is_stopping
        self._source_changes = SourceChangeMonitor(request.config_files)
        self._nothing_to_do_ns = 0
        """Start of the last planning (ns since 1970) if it found no jobs and nothing was made since; else 0."""

    def make(self, local: bool) -> bool:
        """Make everything that is requested, or the information requested from Snakemake; returns whether it succeeded."""
        plan, left_out = self._request.plan, self._request.left_out
        if not Run.made:
            return self._show(plan, left_out)
        try:
            return self._make_scopes(plan, left_out, local)
        finally:
            for name in self._source_changes.changed():
                text = f"{name} changed during this run: results may come from its previous version"
                print(f"note: {text}; `tvmake make` rebuilds them", file=sys.stderr)

    def _make_scopes(self, plan: Plan, left_out: UpToDate, local: bool) -> bool:
        if not (self._args.dryrun or self._args.unlock or self._args.nolock):
            check_snakemake_lock()
        fingerprint = self._request.fingerprint
        for _ in range(MOST_SCOPES):
            with skip_variants(left_out):
                if not self._make_scope(plan, left_out):
                    return False
                if fingerprint is None or not local or self._is_stopping():
                    return True
            fingerprint = self._current_fingerprint(fingerprint)
            if fingerprint is None:
                return True
            plan = fingerprint.plan
            concerned = left_out.variants and left_out.variants - up_to_date_by_records(plan).variants
            if not concerned:
                keep_answer(fingerprint, self._nothing_to_do_ns)
                return True
            left_out = UpToDate(frozenset(plan.variants) - concerned)
        return True

    def _make_scope(self, plan: Plan, left_out: UpToDate) -> bool:
        if self._request.has_results:
            plan.write_resolved_config()
            discard_unfinished_report(plan)
        variants = [variant for variant in plan.variants if variant not in left_out.variants]
        self._source_changes.watch(jobs_of(plan, variants))
        known_digests().save()  # so that jobs do not digest large files again
        return make_in_rounds(
            self._args,
            self._request.has_results,
            self._look,
            self._run,
            was_made,
            # The set of jobs depends on files that may have been rebuilt.
            lambda: outdated_results(needed_for(self._args.targets, jobs_of(plan, variants))),
            self._is_stopping,
        )

    def _show(self, plan: Plan, left_out: UpToDate) -> bool:
        args = self._args
        if args.dryrun and not args.forcerun:
            args = copy(args)
            variants = [variant for variant in plan.variants if variant not in left_out.variants]
            args.forcerun = outdated_results(needed_for(args.targets, jobs_of(plan, variants))) or args.forcerun
        with skip_variants(left_out):
            return bool(args_to_api(args, self._parser))

    def _look(self, args: argparse.Namespace) -> Sequence[PlannedJob] | None:
        began_ns = time.time_ns()
        jobs = planned_jobs(args, self._parser)
        self._nothing_to_do_ns = began_ns if jobs is not None and not jobs else 0
        return jobs

    def _run(self, args: argparse.Namespace) -> bool:
        self._nothing_to_do_ns = 0
        return bool(args_to_api(args, self._parser))

    def _current_fingerprint(self, fingerprint: RunFingerprint) -> RunFingerprint | None:
        """The current fingerprint; None if it changed during the run."""
        try:
            after = self._request.read_fingerprint()
        except TvmakeError:  # the next run reports the error
            return None
        return after if after and after.digest == fingerprint.digest else None
