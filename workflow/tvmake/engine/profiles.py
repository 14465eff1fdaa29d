"""Find profiles by name: users' profiles and those that tvmake provides."""

import os
from pathlib import Path

from platformdirs import site_config_path, user_config_path

from tvmake.errors import UsageError

OPTION = "--profile"

WORKFLOW_OPTION = "--workflow-profile"
"""It replaces tvmake's own profile. Snakemake ignores a missing one, and then lacks the options of both."""

VARIABLE = "SNAKEMAKE_PROFILE"
"""Names a profile if the option is not given."""

NONE = "none"
"""Snakemake's name for no profile."""


def packaged_profiles() -> dict[str, Path]:
    """The profiles that tvmake provides, by name. ``default`` is always loaded."""
    from tvmake.storage.resources import snakefile

    root = snakefile().parent / "profiles"
    return {path.parent.name: path.parent for path in sorted(root.glob("*/config.yaml"))}


def resolve_profiles(arguments: list[str], directory: Path) -> list[str]:
    """Return Snakemake's arguments with the values of ``--profile`` and ``--workflow-profile`` as paths.

    A name is looked up in ``directory``, then among profiles of the user and of the system, as in Snakemake, then among
    those that tvmake provides.

    Raises:
        UsageError: the profile does not exist.
    """
    resolved = list(arguments)
    for index, word in enumerate(resolved):
        option, equals, name = word.partition("=")
        if option not in (OPTION, WORKFLOW_OPTION):
            continue
        if equals:
            resolved[index] = f"{option}={_find_for(option, name, directory)}"
        elif index + 1 < len(resolved):
            resolved[index + 1] = _find_for(option, resolved[index + 1], directory)
    variable = os.environ.get(VARIABLE, NONE) or NONE
    if variable != NONE and not any(word.partition("=")[0] == OPTION for word in resolved):
        resolved += [f"{OPTION}={find(variable, directory, f'the environment variable {VARIABLE}:')}"]
    return resolved


def _find_for(option: str, name: str, directory: Path) -> str:
    return name if option == WORKFLOW_OPTION and name == NONE else find(name, directory, option)


def find(name: str, directory: Path, where: str = OPTION) -> str:
    """Return the directory or file of a profile.

    Raises:
        UsageError: the profile does not exist.
    """
    for parent in (directory, user_config_path("snakemake"), site_config_path("snakemake")):
        candidate = parent / name
        if candidate.is_file() or _is_profile(candidate):
            return os.path.abspath(candidate)  # noqa: PTH100  # the user may name a link
    known = packaged_profiles()
    if name in known:
        return str(known[name])
    raise UsageError(
        f"{where} {name}",
        "no such profile",
        f"tvmake provides {', '.join(known)}; or name a directory with a config.yaml (docs/guides/slurm.md)",
    )


def _is_profile(directory: Path) -> bool:
    return any(path.name.startswith(("config.", "profile.")) for path in directory.glob("*.yaml"))
