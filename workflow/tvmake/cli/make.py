"""``tvmake make``: the whole pipeline through Snakemake, with progress and a summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import ConfigFiles, Settings

if TYPE_CHECKING:
    from tvmake.cli.unchanged import Question
    from tvmake.plan.plan import Plan

    Ask = Callable[[], Question | None]

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}


def make(
    context: typer.Context,
    targets: Annotated[list[str] | None, typer.Argument(help="Files or rules to make. [default: everything]")] = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    cores: Annotated[str | None, typer.Option("--cores", "-j", help="Cores to use. [default: all]")] = None,
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Work in this directory.")] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be made, and why.")] = False,
    stop_early: Annotated[
        bool, typer.Option("--stop-early", help="Stop at the first failure instead of finishing independent work.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failures and the summary only.")] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Use the cache that the config or TVMAKE_CACHE names.")
    ] = True,
    warm: Annotated[bool, typer.Option(help="Fork steps from processes that have TVM or torch loaded.")] = True,
    locked: Annotated[
        Path | None,
        typer.Option("--locked", help="Make the run of this lock again, and compare every byte.", dir_okay=False),
    ] = None,
) -> None:
    """Make everything the config asks for; what is up to date stays.

    Options that are not listed here go to snakemake (see `snakemake --help`), for example --forcerun build or
    --profile slurm, which sends jobs to a cluster.
    """
    from tvmake.cli.configs import config_files, overlay
    from tvmake.cli.profiles import with_profiles_found

    started_with = dict(os.environ)
    if not directory.is_dir():
        from tvmake.errors import InputError

        raise InputError(str(directory), "no such directory")
    paths = [path.resolve() for path in config] if config else None
    here = Path.cwd()
    os.chdir(directory)
    layer = overlay(settings)
    rebuild = None
    if locked is not None:
        from tvmake.cli.locked import Rebuild

        rebuild = Rebuild(Path(os.path.relpath(here / locked)), [*(targets or []), *context.args])
        paths, layer = rebuild.config(paths), rebuild.layer(layer)
    given = [Path(os.path.relpath(path)) for path in config_files(paths)]
    plan = _plan(given, layer)
    files = [*given, _overlay_file(layer)] if layer else given
    # Snakemake's own options arrive among the targets; kept in order, so that `--forcerun build` stays together, and
    # put first, because Snakemake's `--configfile` takes every word after it.
    wanted = with_profiles_found([*(targets or []), *context.args], here)
    if rebuild:
        wanted = [*rebuild.packages(plan), *wanted]
    arguments = [*wanted, "--snakefile", str(_snakefile()), "--configfile", *map(str, files)]
    arguments += ["--cores", cores] if cores else []
    arguments += ["--dry-run"] if dry_run else []
    arguments += ["--no-keep-going"] if stop_early else []
    partly = bool(wanted) and not wanted[0].startswith("-")
    if rebuild:
        # What another run left in a cache would prove nothing.
        raise typer.Exit(rebuild.make(plan, lambda: _run(plan, arguments, dry_run, True, quiet, warm, False), dry_run))
    # Only a run that asks for everything, in no special way, may be answered from the note on the last one.
    is_whole = not wanted and not dry_run and (cores in (None, "all") or (cores.isdecimal() and int(cores) > 0))

    def ask() -> Question | None:
        from tvmake.cli.unchanged import question

        return question(_plan(given, layer), given, started_with)

    raise typer.Exit(_run(plan, arguments, dry_run, partly, quiet, warm, cache, ask if is_whole else lambda: None))


def _run(
    plan: Plan,
    arguments: list[str],
    dry_run: bool,
    partly: bool,
    quiet: bool,
    warm: bool,
    cache: bool,
    ask: Ask = lambda: None,
) -> int:
    from contextlib import nullcontext

    from tvmake.artifact.made_directories import remove_incomplete
    from tvmake.cli.cache import prepare_cache
    from tvmake.cli.configs import check_stores, missing_inputs
    from tvmake.cli.run_lock import only_run
    from tvmake.cli.unchanged import nothing_has_changed

    # Snakemake does not mind a missing source whose results exist; a config that names one is wrong all the same.
    if not partly and (missing := missing_inputs(plan)):
        raise missing
    check_stores(plan)
    prepare_cache(plan.config.cache if cache else None, is_wanted=cache and not dry_run)
    with nullcontext() if dry_run else only_run():
        for name in [] if dry_run else remove_incomplete():
            print(f"note: {name} lacks files, and is made again", file=sys.stderr)
        asked = ask()
        if asked and nothing_has_changed(asked):
            return _conclude(plan)
        from tvmake.cli import progress  # with Snakemake, which is slow to import
        from tvmake.cli.cluster_check import check_cluster

        code = progress.run(
            arguments,
            quiet,
            warm,
            lambda: missing_inputs(plan),
            lambda args: check_cluster(args, plan),
            has_results=Path(plan.file("summary")).parent.is_dir(),
            is_whole=asked is not None,
        )
        if not dry_run:
            from tvmake.by_content import keep_digests

            keep_digests()
        if asked and not code:
            _note_unchanged(asked, ask)
    # Files may be asked for behind Snakemake's own options, whose values look the same.
    concluded = progress.Run.made and not partly and Path(plan.file("summary")).is_file()
    return _conclude(plan) if concluded and not code else code


def _note_unchanged(asked: Question, ask: Ask) -> None:
    """Let the next run know if the last look found nothing to do."""
    from tvmake.by_content import files_of_jobs
    from tvmake.cli.progress import Run
    from tvmake.cli.unchanged import JobFiles, note

    if Run.last_look is None or Run.last_look.found_nothing is None:
        return
    files, again = files_of_jobs(), ask()
    if files is not None and again is not None and again.digest == asked.digest:
        note(again, Run.last_look.found_nothing, JobFiles(*map(frozenset, files)))


def _plan(files: list[Path], layer: dict[str, Any]) -> Plan:
    from tvmake.config.load import load_layers
    from tvmake.plan.plan import Plan

    return Plan(load_layers(files, layer))


def _snakefile() -> Path:
    from tvmake.house import snakefile

    return snakefile()


def _overlay_file(layer: dict[str, Any]) -> Path:
    """The ``--set`` layer as a file, which is how it reaches Snakemake's jobs on other machines too."""
    import yaml

    from tvmake.artifact.files import digest_bytes, write_text

    text = yaml.safe_dump(layer)
    path = Path(".snakemake") / f"set-{digest_bytes(text.encode())[:16]}.yaml"
    write_text(path, text)
    return path


def _conclude(plan: Plan) -> int:
    from tvmake.artifact import stage_json
    from tvmake.report.rows import Summary
    from tvmake.report.terminal import exit_code, print_summary

    summary = stage_json.load(Summary, Path(plan.file("summary")))
    print_summary(summary)
    print(f"\nresults: {plan.file('summary')}, {plan.file('summary_csv')}, {plan.file('page')}", file=sys.stdout)
    return exit_code(summary)
