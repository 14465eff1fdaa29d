"""What the answer "nothing to do" depends on, besides the files of the jobs: config, code, rules, profiles, environment."""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from tvmake.config.device_variables import VARIABLE as DEVICE_VARIABLES
from tvmake.engine.profiles import VARIABLE as PROFILE_VARIABLE
from tvmake.plan.plan import Plan
from tvmake.process.forkserver.client import DIRECTORY as WARM_SERVERS
from tvmake.storage import resources
from tvmake.storage.code_fingerprint import DISTRIBUTIONS, version
from tvmake.storage.files import canonical_json, digest_bytes
from tvmake.targets.cpu.identity import cpu_identity

VARIABLES = ("TVMAKE_", "SNAKEMAKE_")
"""Beginnings of the names of environment variables that the config, the plan or Snakemake's options may go by."""

PROFILES = ("default", "profiles/default")
"""Where Snakemake looks for a profile that nobody named, in several directories."""

CHANGING = ("$", "__use_yte__")
"""What makes a profile's values depend on more than its text."""


@dataclass(frozen=True)
class RunFingerprint:
    """What a run of a whole plan depends on, besides the files of its jobs."""

    plan: Plan
    digest: str
    """Of all of it."""
    workflow: str
    """Digest of what no job's record holds: rules, profiles, environment, the versions of Python and Snakemake."""
    newest_ns: int
    """When the newest of the files that it was read from was changed."""


def run_fingerprint(plan: Plan, config_files: Iterable[Path], environment: Mapping[str, str]) -> RunFingerprint | None:
    """What a run of the whole plan depends on; None if that cannot be determined.

    Args:
        config_files: the files that the plan was read from.
        environment: as the run was started with.
    """
    if PROFILE_VARIABLE in environment:
        return None
    try:
        profiles = _profiles_of_users()
        if any(word in text for text in profiles.values() for word in CHANGING):
            return None
        rules, package = _files_of_workflow(), _files_of_package()
        workflow = _digest(_concerning_all(rules, profiles, environment))
        digest = _digest(
            {
                "workflow": workflow,
                "config": plan.resolved_config(),
                "cpu": cpu_identity() if any(target.is_native for target in plan.config.targets.values()) else None,
                "sources": {model: plan.source_files(model) for model in plan.config.models},
                "code": {str(path): digest_bytes(path.read_bytes()) for path in package},
                "versions": {name: version(name) for names in DISTRIBUTIONS.values() for name in names},
                "python": sys.prefix,
                "libraries": _libraries(),
                "directory": str(Path.cwd()),
            }
        )
        read = [*rules, *package, *profiles, *config_files]
        return RunFingerprint(plan, digest, workflow, max(path.stat().st_ctime_ns for path in read))
    except (OSError, ValueError):
        return None


def _concerning_all(
    rules: Iterable[Path], profiles: Mapping[Path, str], environment: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "rules": {str(path): digest_bytes(path.read_bytes()) for path in rules},
        "profiles": [[str(path), digest_bytes(text.encode())] for path, text in profiles.items()],
        "places of profiles": [str(path) for path in _places_of_profiles() if path.exists()],
        "versions": [sys.version, version("snakemake")],
        "environment": {
            # Which process a step is forked from changes nothing of what it does.
            name: value
            for name, value in environment.items()
            if name.startswith(VARIABLES) and name not in (WARM_SERVERS, DEVICE_VARIABLES)
        },
    }


def _digest(value: Any) -> str:
    return digest_bytes(canonical_json(value).encode())


def _files_of_workflow() -> list[Path]:
    """The Snakefile, the rules, and what lies beside them."""
    root = resources.snakefile().parent
    return [resources.snakefile(), *_files(root / name for name in ("rules", "profiles", "envs"))]


def _files_of_package() -> list[Path]:
    return _files([resources.PACKAGE])


def _files(places: Iterable[Path]) -> list[Path]:
    found = [path for place in places for path in sorted(place.rglob("*")) if "__pycache__" not in path.parts]
    return [path for path in found if path.is_file()]


def _profiles_of_users() -> dict[Path, str]:
    """The profiles that Snakemake would load unasked, besides tvmake's own; by their file."""
    found = _places_of_profiles()
    files = [file for place in found for file in ([place] if place.is_file() else sorted(place.glob("*.yaml")))]
    return {file: file.read_text(errors="replace") for file in files}


def _places_of_profiles() -> list[Path]:
    of_user = platformdirs.user_config_path("snakemake", "snakemake")
    of_system = platformdirs.site_config_path("snakemake", "snakemake")
    return [place / name for place in (Path(), of_user, of_system) for name in PROFILES]


def _libraries() -> list[str]:
    """The names of all distributions that Python finds, versions included, in the order it does."""
    found: list[str] = []
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208  # of some hundred names
        except OSError:
            continue
        found += sorted(name for name in names if name.endswith((".dist-info", ".egg-info", ".egg-link")))
    return found
