"""``tvmake report``: write the page of the results."""

from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings


def report(
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """Write the page of the results so far and print its path. Variants without results are rows with the reason.

    Nothing else is built. If the page of the last run is complete and up to date, it is not rewritten.
    """
    import webbrowser

    from tvmake.cli.configs import plan_in
    from tvmake.cli.terminal import print_json
    from tvmake.engine.failure_report import report_failures
    from tvmake.engine.run_mutex import only_run
    from tvmake.engine.up_to_date.job_states import job_states
    from tvmake.engine.up_to_date.scope import jobs_of
    from tvmake.errors import InputError, MachineError
    from tvmake.process.output import printable

    plan = plan_in(directory, config, settings)
    if not Path(plan.config.results).is_dir():
        raise InputError(plan.config.results, "there are no results yet", "`tvmake make` builds them")
    job = next(job for job in plan.run_jobs() if job.stage == "report")
    states = job_states(jobs_of(plan, plan.variants))
    page = Path(next(name for name in job.outputs if name.endswith(".html")))
    is_current = next(state for state in states if state.job.outputs == job.outputs).state == "made"
    if not is_current:
        with only_run():
            report_failures(plan, began=0)
    if as_json:
        files = {Path(name).name: str(Path(name).resolve()) for name in job.outputs}
        print_json({"page": str(page.resolve()), "written": not is_current, "files": files})
    else:
        typer.echo(printable(str(page.resolve())))
    if show and not webbrowser.open(page.resolve().as_uri()):
        raise MachineError("--open", "cannot start a browser here", f"open {page.resolve()} in a browser")
