"""``tvmake completion``: shell completion of commands, options, targets and variants.

The shell's script runs ``tvmake`` with :data:`VARIABLE` set and the line typed so far; typer prints the completions.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

VARIABLE = "_TVMAKE_COMPLETE"


def is_requested() -> bool:
    """Whether this process completes a line or prints a shell's script."""
    return VARIABLE in os.environ


def prepare() -> None:
    """Register the shells. Typer does so only in applications with its own completion options."""
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()


def completion(
    context: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes tvmake's commands, options, targets and variants in a shell.

    For bash: `source <(tvmake completion bash)` in ~/.bashrc; for zsh the same in ~/.zshrc, after compinit; for fish:
    `tvmake completion fish > ~/.config/fish/completions/tvmake.fish`.
    """
    os.environ[VARIABLE] = f"source_{shell}"
    prepare()
    context.find_root().command([], prog_name="tvmake")


def targets(incomplete: str) -> list[str]:
    """Names of the catalogue that start with the text."""
    from tvmake.targets.catalogue.entries import catalogue

    return [name for name in ("native", *catalogue()) if name.startswith(incomplete)]


def variants(incomplete: str) -> list[str]:
    """Variants of the config here that start with the text; none if there is no valid config."""
    from tvmake.cli.configs import config_files, load_plan
    from tvmake.errors import TvmakeError

    try:
        plan = load_plan(config_files(None), None)
    except TvmakeError:
        return []
    return [name for name in map(str, plan.variants) if name.startswith(incomplete)]


def results(incomplete: str) -> list[str]:
    """Variants and files that start with the text."""
    directory = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    entries = sorted(directory.iterdir()) if directory.is_dir() else []
    files = [f"{path}/" if path.is_dir() else str(path) for path in entries if not path.name.startswith(".")]
    return [*variants(incomplete), *(name for name in files if name.startswith(incomplete))]
