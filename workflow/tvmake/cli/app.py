"""The typer application; each command lives in a module of its own and imports what it needs when it runs."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tvmake.cli import cache, check, clean, compile, completion, init, make, tune, verbosity
from tvmake.cli.device import app as device
from tvmake.cli.machine import doctor, runtime, targets
from tvmake.cli.other_options import is_model
from tvmake.cli.packages import bundle, run, sign, verify
from tvmake.cli.records import app as records
from tvmake.cli.results import debug, diff, explain, lock, logs, report, status
from tvmake.cli.step import command as step
from tvmake.errors import UsageError
from tvmake.process.output import argument

ELSEWHERE = {
    "build": "`tvmake compile` makes one package, `tvmake make` all that a config asks for",
    "benchmark": "`tvmake run PACKAGE --repeat 100` times one package, `tvmake make` all that a config asks for",
    "validate": "`tvmake make` compares packages with their models, `tvmake run PACKAGE --self-test` one with its samples",
    "deploy": "`tvmake device push` brings a package to a device; `tvmake run -d` does, too",
    "convert": "`tvmake compile MODEL` makes a package of a model",
    "export": "`tvmake compile MODEL` makes a package of a model; `tvmake records export` and `bundle export` pass things on",
    "quantize": "`tvmake compile MODEL --precision int8` does, or int8_weights; with a dataset, `precisions: [int8]` in a config",
    "profile": "`tvmake run PACKAGE --profile` times each kernel",
    "test": "`tvmake run PACKAGE --self-test` tests a package, `tvmake device selftest` a device",
    "help": "tvmake --help",
}
"""What other programs have commands for."""


GROUPS: Mapping[str, Mapping[str, str]] = {
    "Build": {
        "init": "write a commented config for a model",
        "make": "make everything the config asks for",
        "compile": "compile one model for one target, without a config",
        "tune": "search for fast kernels of one model, without a config",
        "clean": "list what runs have made, and delete it",
        "step": "run one stage, as the workflow's rules do",
    },
    "Use": {
        "run": "run a package: outputs, latency, kernels, self-test",
        "verify": "check a package's digests, provenance and signature",
        "sign": "sign packages",
        "runtime": "compile the device-side C++ that TVM's wheel lacks",
    },
    "Look": {
        "check": "validate a config and list what it would make",
        "status": "show what is made or missing, or a run's table",
        "explain": "say what made a file, and why it would be rebuilt",
        "logs": "print the log of the job that failed",
        "report": "write the page of a run",
        "diff": "compare two runs: latency, numerics, sizes",
        "debug": "name the first operator whose output departs",
    },
    "Devices": {
        "device": "list, test and serve devices; push packages to them",
        "targets": "list what can be compiled for",
        "doctor": "say what this machine or a device can do, and what is missing",
        "completion": "print a shell's completion script",
    },
    "Share": {
        "lock": "write down what determined a run",
        "bundle": "carry a run to another site",
        "records": "look at, exchange and prune records of tuning",
        "cache": "look at, check and prune the cache of results",
    },
}
"""The commands as ``--help`` lists them, with a line for each."""


class Commands(TyperGroup):
    """The commands in groups, and what to type for those that there are not."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands of each group."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named.

        Raises:
            UsageError: it is one of :data:`ELSEWHERE`, or a model's file.
        """
        if args[0] in ELSEWHERE:
            raise UsageError(f"tvmake {args[0]}", "there is no such command", ELSEWHERE[args[0]])
        if is_model(args[0]) and args[0] not in self.commands:
            remedy = f"`tvmake compile {argument(args[0])}` makes a package of it, `tvmake init {argument(args[0])}` writes a config"
            raise UsageError(f"tvmake {args[0]}", "a command is missing", remedy)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="tvmake",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from tvmake import __version__

        typer.echo(f"tvmake {__version__}")
        raise typer.Exit


@app.callback()
def tvmake(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turn trained models into validated, deployable Apache TVM packages."""


app.command("init")(init.init)
app.command("make", context_settings=make.CONTEXT)(make.make)
app.command("clean")(clean.clean)
app.command("compile")(compile.compile_model)
app.command("tune")(tune.tune)
app.command("run")(run.run)
app.command("lock")(lock.lock)
app.command("verify")(verify.verify)
app.command("sign")(sign.sign)
app.command("check")(check.check)
app.command("status")(status.status)
app.command("explain")(explain.explain)
app.command("logs")(logs.logs)
app.command("debug")(debug.debug)
app.command("report")(report.report)
app.command("diff")(diff.diff)
app.command("targets")(targets.targets)
app.command("doctor")(doctor.doctor)
app.command("completion")(completion.completion)
app.add_typer(bundle.app, name="bundle")
app.add_typer(cache.app, name="cache")
app.add_typer(device.app, name="device")
app.add_typer(records.app, name="records")
app.add_typer(runtime.app, name="runtime")
app.add_typer(step.app, name="step")


def command() -> Any:
    """The application as the command that runs: every command with ``-v`` and ``-q``, besides the steps, which rules call."""
    root = get_command(app)
    verbosity.add_options(root, without=("step",))
    return root
