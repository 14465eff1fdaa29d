"""``tvmake completion``: a shell completes commands, options, targets and variants.

The shell's script runs ``tvmake`` with :data:`VARIABLE` set and the line typed so far; typer answers instead of running a command.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

VARIABLE = "_TVMAKE_COMPLETE"


def is_asked() -> bool:
    """Whether this process is to complete a line, or to print a shell's script."""
    return VARIABLE in os.environ


def prepare() -> None:
    """Have typer know the shells, which it does by itself only for applications with options to install completion."""
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()


def completion(
    context: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print what has a shell complete tvmake's commands, options, targets and variants.

    For bash: `source <(tvmake completion bash)` in ~/.bashrc; for zsh the same in ~/.zshrc, after compinit; for fish:
    `tvmake completion fish > ~/.config/fish/completions/tvmake.fish`.
    """
    os.environ[VARIABLE] = f"source_{shell}"
    prepare()
    context.find_root().command([], prog_name="tvmake")


def targets(incomplete: str) -> list[str]:
    """Names of the catalogue that begin so."""
    from tvmake.targets.catalogue.entries import catalogue

    return [name for name in ("native", *catalogue()) if name.startswith(incomplete)]


def variants(incomplete: str) -> list[str]:
    """Variants of the config here that begin so; none where there is no config, or a wrong one."""
    from tvmake.cli.configs import config_files, load_plan
    from tvmake.errors import TvmakeError

    try:
        plan = load_plan(config_files(None), None)
    except TvmakeError:
        return []
    return [name for name in map(str, plan.variants) if name.startswith(incomplete)]


def results(incomplete: str) -> list[str]:
    """Variants, and files that begin so."""
    place = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    inside = sorted(place.iterdir()) if place.is_dir() else []
    files = [f"{path}/" if path.is_dir() else str(path) for path in inside if not path.name.startswith(".")]
    return [*variants(incomplete), *(name for name in files if name.startswith(incomplete))]
