"""``tvmake make``: run the whole pipeline with Snakemake, with progress and a summary."""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import ConfigFiles, Settings
from tvmake.storage.directories import SNAKEMAKE_STATE

if TYPE_CHECKING:
    from tvmake.config.reading.load import Layers
    from tvmake.config.reading.notation import Notation
    from tvmake.engine.up_to_date.run_fingerprint import RunFingerprint
    from tvmake.plan.plan import Plan
    from tvmake.report.packages import PackageRow
    from tvmake.report.rows import Summary, SummaryRow

PACKAGES_SHOWN = 10

CONFIG_COPY = "tvmake-config-"
"""Prefix of the directories in Snakemake's state that contain the config of a run."""

SOUND = ("pass", "not run")
"""Verdicts of variants whose packages are listed without a remark."""

_OTHER_SNAKEFILE = "run another workflow with `snakemake --snakefile FILE`"

OURS = {
    "--snakefile": _OTHER_SNAKEFILE,
    **dict.fromkeys(("--configfile", "--configfiles"), "name config files with -c"),
    "-C": "set keys with --set KEY=VALUE; --directory runs in another directory",
}
"""Snakemake's options that tvmake sets itself, and their replacements."""

NO_OPTIONS = ("-t", "--target", "--targets", "--model", "--precision")
"""Options of other commands. Snakemake's -t would mark results as made."""

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}


def make(
    context: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(help="Variants (model/precision/target), stages or files to make. [default: everything]"),
    ] = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    cores: Annotated[str | None, typer.Option("--cores", "-j", help="Cores to use. [default: all]")] = None,
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Run in this directory.")] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show which jobs would run, and why.")] = False,
    stop_early: Annotated[
        bool, typer.Option("--stop-early", help="Stop at the first failure instead of finishing independent work.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failures and the summary only.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the reason and the command of each job.")
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Use the cache of the config or TVMAKE_CACHE.")
    ] = True,
    warm: Annotated[bool, typer.Option(help="Fork steps from processes that have TVM or torch loaded.")] = True,
    locked: Annotated[
        Path | None,
        typer.Option("--locked", help="Rebuild the run of this lock and compare every byte.", dir_okay=False),
    ] = None,
    notation: Annotated[
        str, typer.Option(hidden=True, help="How the user of another command writes keys of the config, as JSON.")
    ] = "",
) -> None:
    """Make everything the config requests. Results that are up to date are kept.

    Options that are not listed here are passed to snakemake (see `snakemake --help`), for example --forcerun build or
    --profile slurm, which submits jobs to a cluster.
    """
    from tvmake.cli.configs import config_files, missing_directory, overlay
    from tvmake.engine.profiles import resolve_profiles
    from tvmake.plan.wanted import requested_files, with_rules

    started_with = dict(os.environ)
    if ours := next((word for word in [*(targets or []), *context.args] if word.partition("=")[0] in OURS), None):
        from tvmake.errors import UsageError

        raise UsageError(ours, "is an option that tvmake passes to snakemake itself", OURS[ours.partition("=")[0]])
    if option := next(
        (word for word in [*(targets or []), *context.args] if word.partition("=")[0] in NO_OPTIONS), None
    ):
        from tvmake.errors import UsageError

        remedy = "name results without an option: model/precision/target, or a stage; Snakemake's own -t is --touch"
        raise UsageError(option, "`tvmake make` has no such option", remedy)
    if cores is not None and cores != "all" and not (cores.isdecimal() and int(cores)):
        from tvmake.errors import UsageError

        raise UsageError(f"--cores {cores}", "expected a number of cores (at least 1), or all")
    if not directory.is_dir():
        raise missing_directory(directory)
    paths = [path.resolve() for path in config] if config else None
    here = Path.cwd()
    os.chdir(directory)
    layer = overlay(settings)
    rebuild = None
    if locked is not None:
        from tvmake.cli.locked import Rebuild

        rebuild = Rebuild(Path(os.path.relpath(here / locked)), [*(targets or []), *context.args])
        paths, layer = rebuild.config(paths), rebuild.layer(layer)
    files = [Path(os.path.relpath(path)) for path in config_files(paths)]
    layers = _layers(files, layer)
    plan = _plan(layers)
    # Snakemake's options arrive among the targets. They keep their order, so that `--forcerun build` stays together, and come
    # first, because Snakemake's `--configfile` takes every word after it.
    words = [word for word in [*(targets or []), *context.args] if word != "--"]
    requested = resolve_profiles(words, here)
    if rebuild:
        requested = [*rebuild.packages(plan), *requested]
    files_first = list(itertools.takewhile(lambda word: not word.startswith("-"), requested))
    requested = [*requested_files(plan, files_first), *with_rules(requested[len(files_first) :])]
    arguments = [*requested, "--snakefile", str(_snakefile())]
    arguments += ["--cores", cores] if cores else []
    arguments += ["--dry-run"] if dry_run else []
    partly = bool(requested) and not requested[0].startswith("-")

    def read_fingerprint(plan: Plan | None) -> RunFingerprint | None:
        from tvmake.engine.up_to_date.run_fingerprint import run_fingerprint

        return run_fingerprint(plan or _plan(_layers(files, layer)), files, started_with)

    # The records of earlier runs are valid only for a run of everything without special options.
    is_whole = not requested
    options = _Options(
        arguments,
        # A dry run writes as little as possible.
        layer if dry_run else layers.values,
        files if dry_run else [],
        dry_run,
        partly,
        quiet,
        verbose,
        warm,
        cache,
        stop_early,
        files,
        here,
        _notation(notation),
    )
    if rebuild:
        # Results of another run in a cache would prove nothing.
        options = replace(options, partly=True, cache=False)
        raise typer.Exit(rebuild.make(plan, lambda: _run(plan, options, lambda _: None), dry_run))
    raise typer.Exit(_run(plan, options, read_fingerprint if is_whole else lambda _: None))


def _notation(text: str) -> Notation | None:
    """Parse the JSON of ``--notation``."""
    from tvmake.config.reading.notation import Notation
    from tvmake.errors import UsageError

    try:
        return Notation.load(text)
    except ValueError:
        raise UsageError("--notation", "not a notation", "omit it; it is for tvmake's own commands") from None


@dataclass(frozen=True)
class _Options:
    """Options of a run."""

    arguments: list[str]
    """Snakemake's arguments, except the config."""
    config: Mapping[str, Any]
    """The merged config of files and ``--set`` options; in a dry run only the options."""
    config_files: list[Path]
    """Files that Snakemake reads before the copy of ``config``."""
    dry_run: bool
    partly: bool
    """Whether only some files are requested."""
    quiet: bool
    verbose: bool
    warm: bool
    cache: bool
    stop_early: bool
    files: list[Path]
    """The config files."""
    user_directory: Path
    """The directory in which the command was typed."""
    notation: Notation | None
    """The notation of another command's options, which started this one."""


def _run(plan: Plan, options: _Options, read_fingerprint: Callable[[Plan | None], RunFingerprint | None]) -> int:
    import logging
    from contextlib import nullcontext

    from tvmake.cache.prepare import prepare_cache
    from tvmake.cli.configs import naming_lines
    from tvmake.config.reading.load import naming
    from tvmake.engine.run_mutex import only_run
    from tvmake.engine.up_to_date.noop import up_to_date
    from tvmake.engine.up_to_date.scope import NOTHING_TO_DO, UpToDate
    from tvmake.plan.access import READING, WRITING, check_access
    from tvmake.plan.directory_checks import check_directories, check_output_paths
    from tvmake.plan.preconditions import check_stores, missing_inputs

    # A log of Snakemake's that cannot be written is reported once, with the next file that cannot be written.
    logging.raiseExceptions = False
    # Snakemake accepts a missing source if its results exist, but the config is invalid.
    with naming_lines(options.files):
        if not options.partly and (missing := missing_inputs(plan)):
            raise missing
        check_directories(plan)
        check_stores(plan)
    prepare_cache(plan.config.cache if options.cache else None, is_wanted=options.cache and not options.dry_run)
    with nullcontext() if options.dry_run else only_run():
        if not options.dry_run:
            _sweep_config_copies()
        fingerprint = read_fingerprint(plan)
        current = up_to_date(fingerprint) if fingerprint else UpToDate()
        if current.is_everything(plan):
            return _nothing_to_do(plan, options.dry_run)
        with naming_lines(options.files):
            variants = [variant for variant in plan.variants if variant not in current.variants]
            check_access(plan, variants, READING if options.dry_run else WRITING)
            check_output_paths(plan, variants)
        _check_names(plan, {variant.model for variant in variants}, options)
        from tvmake.engine.release import check_release

        check_release()
        from tvmake.engine.cluster_check import check_cluster
        from tvmake.engine.deployment_check import check_deployment
        from tvmake.engine.progress.handler import Run
        from tvmake.engine.run import Request, run  # imports Snakemake, which is slow

        began = time.time()
        sys.argv = without_secrets(sys.argv)  # Snakemake's log has the command line
        with _config_files(options) as config_files:
            code = run(
                Request(
                    plan=fingerprint.plan if fingerprint else plan,
                    config_files=options.files,
                    arguments=[*options.arguments, "--configfile", *map(str, config_files)],
                    quiet=options.quiet,
                    verbose=options.verbose,
                    warm=options.warm,
                    stop_early=options.stop_early,
                    has_results=Path(plan.file("summary.json")).parent.is_dir(),
                    fingerprint=fingerprint,
                    left_out=current,
                    read_fingerprint=lambda: read_fingerprint(None),
                    missing_inputs=lambda: missing_inputs(plan),
                    obstacle=lambda args: check_deployment(args) or check_cluster(args, plan),
                    user_directory=options.user_directory,
                    named=naming(options.files, options.notation),
                    translate=options.notation.translate if options.notation else lambda text: text,
                )
            )
        # Files may be requested after Snakemake's own options, whose values look the same.
        if not Run.made or options.partly:
            if Run.made and not (code or options.dry_run or options.quiet or Run.logs):
                print(NOTHING_TO_DO, file=sys.stderr)
            return code
        if code and not Run.ended and Run.logs:  # without a job, the results are those of an earlier run
            _report_failures(plan, began)
    if code or not Path(plan.file("summary.json")).is_file():
        return code
    return _conclude(plan)


def _check_names(plan: Plan, models: Collection[str], options: _Options) -> None:
    """Refuse wrong names and sizes of models that are requested and not up to date."""
    from tvmake.config.reading.load import naming
    from tvmake.errors import TvmakeError
    from tvmake.plan.model_checks import check_names

    files = list(itertools.takewhile(lambda word: not word.startswith("-"), options.arguments))
    try:
        check_names(plan, [name for name in models if not options.partly or any(f"/{name}/" in file for file in files)])
    except TvmakeError as error:
        raise naming(options.files, options.notation)(error) from None


def _nothing_to_do(plan: Plan, dry_run: bool) -> int:
    if not dry_run:
        return _conclude(plan)
    from tvmake.engine.up_to_date.scope import NOTHING_TO_DO

    print(NOTHING_TO_DO, file=sys.stderr)
    return 0


def _layers(files: list[Path], layer: dict[str, Any]) -> Layers:
    from tvmake.config.reading.load import read_layers

    return read_layers(files, layer)


def _plan(layers: Layers) -> Plan:
    from tvmake.plan.plan import Plan

    return Plan(layers.config())


def _snakefile() -> Path:
    from tvmake.storage.resources import snakefile

    return snakefile()


def without_secrets(words: Sequence[str]) -> list[str]:
    """A command line without the values that ``--set`` gives to devices' environments: they may be passwords."""
    settings = (re.fullmatch(r"(?s)((?:--set=)?devices[\w.-]*)=(.*)", word) for word in words)
    return [
        f"{match[1]}=…" if match and re.search(r"\.env\b|\benv:", f"{match[1]} {match[2]}") else word
        for word, match in zip(words, settings, strict=True)
    ]


def _sweep_config_copies() -> None:
    """Remove the config copies of killed runs."""
    from tvmake.storage.temporary import sweep

    sweep(SNAKEMAKE_STATE, CONFIG_COPY)


@contextmanager
def _config_files(options: _Options) -> Iterator[list[Path]]:
    """The config files that Snakemake reads during a run.

    Snakemake reads a copy, since it reads the config in every round and in jobs on other machines, while users may edit
    their files for the next run. The copy may contain secrets: it is removed after the run, or before the next if killed.
    """
    if not options.config:
        yield options.config_files
        return
    import yaml

    from tvmake.storage.files import write_text, writing
    from tvmake.storage.temporary import locked_directory

    with ExitStack() as stack:
        with writing(SNAKEMAKE_STATE):
            SNAKEMAKE_STATE.mkdir(exist_ok=True)
            copy = stack.enter_context(locked_directory(SNAKEMAKE_STATE, CONFIG_COPY)) / "config.yaml"
        write_text(copy, yaml.safe_dump(dict(options.config), sort_keys=False))
        yield [*options.config_files, copy]


def _report_failures(plan: Plan, began: float) -> None:
    """Write and print the report of a failed run, if there are results of this or an earlier run."""
    from tvmake.engine.failure_report import report_failures
    from tvmake.errors import TvmakeError, print_error

    if not Path(plan.file("summary.json")).parent.is_dir():
        return
    try:
        _print(plan, report_failures(plan, began))
    except TvmakeError as error:
        print_error(error)


def _conclude(plan: Plan) -> int:
    from tvmake.artifact import stage_json
    from tvmake.report.rows import Summary
    from tvmake.report.terminal import exit_code

    summary = stage_json.load(Summary, Path(plan.file("summary.json")))
    _print(plan, summary)
    return exit_code(summary)


def _print(plan: Plan, summary: Summary) -> None:
    from tvmake.process.output import argument, printable
    from tvmake.report.terminal import print_summary

    print_summary(summary)
    print(f"\nresults: {plan.file('summary.json')}, {plan.file('summary.csv')}, {plan.file('index.html')}")
    joined = [file for row in summary.packages if row.package and (file := _joined_package(plan, row)).is_file()]
    for number, file in enumerate(joined[:PACKAGES_SHOWN]):
        print(printable(f"{'joined:   ' if number == 0 else ' ' * 10}{file}"))
    packages = [(row, file) for row in summary.rows if (file := _package(plan, row)).is_file()]
    for number, (row, file) in enumerate(packages[:PACKAGES_SHOWN]):
        doubt = "" if row.verdict in SOUND else f" ({row.verdict})"
        print(printable(f"{'packages: ' if number == 0 else ' ' * 10}{file}{doubt}"))
    if len(packages) > PACKAGES_SHOWN:
        print(f"{' ' * 10}and {len(packages) - PACKAGES_SHOWN} more, one per variant")
    for row, file in sorted(packages, key=lambda package: not package[0].best):
        if row.device is not None and row.verdict in SOUND:
            device = "" if row.device == "local" else f" -d {row.device}"
            print(printable(f"run a package: tvmake run {argument(file)}{device}"))
            break


def _joined_package(plan: Plan, row: PackageRow) -> Path:
    return Path(plan.file("joined/package.tar", group=row.model, precision=row.precision, target=row.target))


def _package(plan: Plan, row: SummaryRow) -> Path:
    return Path(plan.file("package.tar", model=row.model, precision=row.precision, target=row.target))
