"""Profiles by name: those that come with tvmake, beside one's own."""

import os
from pathlib import Path

from platformdirs import site_config_path, user_config_path

from tvmake.errors import UsageError

OPTION = "--profile"

VARIABLE = "SNAKEMAKE_PROFILE"
"""Names a profile where the option does not."""

NONE = "none"
"""Snakemake's word for no profile."""


def packaged() -> dict[str, Path]:
    """The profiles that come with tvmake, by name; ``default`` is loaded without being asked for."""
    from tvmake.storage.resources import snakefile

    root = snakefile().parent / "profiles"
    return {path.parent.name: path.parent for path in sorted(root.glob("*/config.yaml"))}


def with_profiles_found(arguments: list[str], directory: Path) -> list[str]:
    """Snakemake's arguments with the value of ``--profile`` as a path.

    A name means a directory or file in ``directory``, then a profile of the user's or the system's, as Snakemake has
    it, then one that comes with tvmake.

    Raises:
        UsageError: there is no such profile.
    """
    found = list(arguments)
    for index, word in enumerate(found):
        option, equals, name = word.partition("=")
        if option != OPTION:
            continue
        if equals:
            found[index] = f"{OPTION}={find(name, directory)}"
        elif index + 1 < len(found):
            found[index + 1] = find(found[index + 1], directory)
    variable = os.environ.get(VARIABLE, NONE) or NONE
    if variable != NONE and not any(word.partition("=")[0] == OPTION for word in found):
        found += [f"{OPTION}={find(variable, directory, f'the environment variable {VARIABLE}:')}"]
    return found


def find(name: str, directory: Path, where: str = OPTION) -> str:
    """The directory or file of a profile.

    Raises:
        UsageError: there is no such profile.
    """
    for place in (directory, user_config_path("snakemake"), site_config_path("snakemake")):
        candidate = place / name
        if candidate.is_file() or _is_profile(candidate):
            return os.path.abspath(candidate)  # noqa: PTH100  # a link may be how the user names it
    known = packaged()
    if name in known:
        return str(known[name])
    raise UsageError(
        f"{where} {name}",
        "no such profile",
        f"tvmake comes with {', '.join(known)}; else name a directory with a config.yaml (docs/guides/slurm.md)",
    )


def _is_profile(directory: Path) -> bool:
    return any(path.name.startswith(("config.", "profile.")) for path in directory.glob("*.yaml"))
