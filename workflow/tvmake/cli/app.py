"""The typer application. Each command is in its own module and imports what it needs when it runs."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tvmake.cli import cache, check, clean, compile, completion, init, make, tune, verbosity
from tvmake.cli.device import app as device
from tvmake.cli.help import EXAMPLES, help_command
from tvmake.cli.machine import doctor, runtime, targets
from tvmake.cli.packages import bundle, pack, run, show, sign, verify
from tvmake.cli.records import app as records
from tvmake.cli.results import debug, diff, explain, lock, logs, report, status
from tvmake.cli.step import command as step
from tvmake.cli.usage import is_model
from tvmake.errors import UsageError
from tvmake.process.output import argument

ELSEWHERE = {
    "build": "`tvmake compile` builds one package, `tvmake make` everything a config requests",
    "benchmark": "`tvmake run PACKAGE --repeat 100` times one package, `tvmake make` everything a config requests",
    "validate": "`tvmake make` compares packages with their models, `tvmake run PACKAGE --self-test` one package with its samples",
    "deploy": "`tvmake device push` copies a package to a device; so does `tvmake run -d`",
    "convert": "`tvmake compile MODEL` builds a package from a model",
    "export": "`tvmake compile MODEL` builds a package; `tvmake records export` and `tvmake bundle export` write files for other machines",
    "quantize": "`tvmake compile MODEL --precision int8` (or int8_weights); with a dataset: `precisions: [int8]` in a config",
    "profile": "`tvmake run PACKAGE --profile` times each kernel",
    "version": "`tvmake --version` prints the version",
    "test": "`tvmake run PACKAGE --self-test` tests a package, `tvmake device selftest` a device",
}
"""Commands that other tools have, and their equivalents here."""


GROUPS: Mapping[str, Mapping[str, str]] = {
    "Build": {
        "init": "write a commented config for a model",
        "make": "make everything the config requests",
        "compile": "compile one model for one target, without a config",
        "tune": "search for fast kernels of one model, without a config",
        "pack": "join packages to one with several functions over the same weights",
        "clean": "list and delete the files that runs made",
        "step": "run one stage, as the workflow's rules do",
    },
    "Use": {
        "run": "run a package: outputs, latency, kernels, self-test",
        "show": "show a package's functions, inputs, outputs, states and weights",
        "verify": "check a package's digests, provenance and signature",
        "sign": "sign packages",
        "runtime": "compile the C++ that devices need and TVM's wheel lacks",
    },
    "Look": {
        "check": "validate a config and list what it makes",
        "status": "show which results exist, or a run's table",
        "explain": "show how a file was made, and why it would be rebuilt",
        "logs": "print the log of a failed job",
        "report": "write the page of a run",
        "diff": "compare two runs: latency, numerics, sizes",
        "debug": "find the first operator with wrong outputs",
    },
    "Devices": {
        "device": "list, test and serve devices; push packages to them",
        "targets": "list the targets that can be compiled for",
        "doctor": "check what this machine or a device can do, and what is missing",
        "completion": "print a shell's completion script",
        "help": "show a command's help, or about targets, precisions, devices",
    },
    "Share": {
        "lock": "record everything that determined a run",
        "bundle": "move a run to another site",
        "records": "list, exchange and prune tuning records",
        "cache": "inspect, verify and prune the cache of results",
    },
}
"""The commands as ``--help`` lists them, with one line each."""


class Commands(TyperGroup):
    """The commands in groups, with remedies for commands that do not exist."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands of each group."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command.

        Raises:
            UsageError: the name is in :data:`ELSEWHERE`, or is a model's file.
        """
        if args[0] in ELSEWHERE:
            raise UsageError(f"tvmake {args[0]}", "there is no such command", ELSEWHERE[args[0]])
        if is_model(args[0]) and args[0] not in self.commands:
            remedy = f"`tvmake compile {argument(args[0])}` builds a package from it, `tvmake init {argument(args[0])}` writes a config"
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


def _version(requested: bool) -> None:
    if requested:
        from tvmake import __version__
        from tvmake.lock.git import own_revision

        revision = own_revision()
        changed = ", modified" if revision and revision.modified else ""
        typer.echo(f"tvmake {__version__}" + (f" (commit {revision.commit}{changed})" if revision else ""))
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
app.command("pack")(pack.pack)
app.command("run")(run.run)
app.command("show")(show.show)
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
app.command("help")(help_command)
app.add_typer(bundle.app, name="bundle")
app.add_typer(cache.app, name="cache")
app.add_typer(device.app, name="device")
app.add_typer(records.app, name="records")
app.add_typer(runtime.app, name="runtime")
app.add_typer(step.app, name="step")


def command() -> Any:
    """The click command. Every command gets ``-v`` and ``-q``, except the steps, which rules call."""
    root: Any = get_command(app)
    verbosity.add_options(root, without=("step",))
    _name_values(root)
    for name, example in EXAMPLES.items():
        root.commands[name].epilog = f"Example: {example}"
    return root


def _name_values(root: Any) -> None:
    """Name the values of arguments and options in the help: ``MODEL`` and ``CORES`` instead of ``{model}`` and ``<str>``."""
    for parameter in root.params:
        has_choices = getattr(getattr(parameter, "type_descriptor", None), "is_choice", False)
        if parameter.metavar is not None or has_choices or getattr(parameter, "is_flag", False):
            continue
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.name.upper()  # the usage line encloses it in brackets
        else:
            parameter.metavar = (
                "FILE" if parameter.name == "config" else max(parameter.opts, key=len).rpartition("-")[2].upper()
            )
    for command in getattr(root, "commands", {}).values():
        _name_values(command)
