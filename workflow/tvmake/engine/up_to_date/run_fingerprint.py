"""Fingerprint of a run: everything but its jobs' files that decides whether it is up to date (config, code, rules, environment)."""

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
"""Prefixes of environment variables that affect the config, the plan or Snakemake's options."""

PROFILES = ("default", "profiles/default")
"""Names of Snakemake's default profiles, in several directories."""

CHANGING = ("$", "__use_yte__")
"""Texts that make a profile depend on more than its content."""


@dataclass(frozen=True)
class RunFingerprint:
    """Fingerprint of a run of a whole plan, without the files of its jobs."""

    plan: Plan
    digest: str
    """Digest of everything."""
    workflow: str
    """Digest of inputs that no job's record contains: rules, profiles, environment, the versions of Python and Snakemake."""
    newest_ns: int
    """Newest change time of the files that it was read from."""


def run_fingerprint(plan: Plan, config_files: Iterable[Path], environment: Mapping[str, str]) -> RunFingerprint | None:
    """Compute the fingerprint of a run of the whole plan; None if it cannot be determined.

    Args:
        config_files: the files that the plan was read from.
        environment: the environment in which the run was started.
    """
    if PROFILE_VARIABLE in environment:
        return None
    try:
        profiles = _user_profiles()
        if any(word in text for text in profiles.values() for word in CHANGING):
            return None
        rules, package = _workflow_files(), _package_files()
        workflow = _digest(_workflow_values(rules, profiles, environment))
        digest = _digest(
            {
                "workflow": workflow,
                "config": plan.resolved_config(),
                "cpu": cpu_identity() if any(target.is_native for target in plan.config.targets.values()) else None,
                "sources": {model: plan.source_files(model) for model in plan.config.networks},
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


def _workflow_values(
    rules: Iterable[Path], profiles: Mapping[Path, str], environment: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "rules": {str(path): digest_bytes(path.read_bytes()) for path in rules},
        "profiles": [[str(path), digest_bytes(text.encode())] for path, text in profiles.items()],
        "places of profiles": [str(path) for path in _profile_paths() if path.exists()],
        "versions": [sys.version, version("snakemake")],
        "environment": {
            # The process that a step is forked from does not affect its results.
            name: value
            for name, value in environment.items()
            if name.startswith(VARIABLES) and name not in (WARM_SERVERS, DEVICE_VARIABLES)
        },
    }


def _digest(value: Any) -> str:
    return digest_bytes(canonical_json(value).encode())


def _workflow_files() -> list[Path]:
    """The Snakefile, the rules, and the files beside them."""
    root = resources.snakefile().parent
    return [resources.snakefile(), *_files(root / name for name in ("rules", "profiles", "envs"))]


def _package_files() -> list[Path]:
    return _files([resources.PACKAGE])


def _files(roots: Iterable[Path]) -> list[Path]:
    paths = [path for root in roots for path in sorted(root.rglob("*")) if "__pycache__" not in path.parts]
    return [path for path in paths if path.is_file()]


def _user_profiles() -> dict[Path, str]:
    """Texts of the default profiles, other than tvmake's, that Snakemake would load, by file."""
    paths = _profile_paths()
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.glob("*.yaml")))]
    return {file: file.read_text(errors="replace") for file in files}


def _profile_paths() -> list[Path]:
    user = platformdirs.user_config_path("snakemake", "snakemake")
    system = platformdirs.site_config_path("snakemake", "snakemake")
    return [directory / name for directory in (Path(), user, system) for name in PROFILES]


def _libraries() -> list[str]:
    """Names of all distributions on Python's path, with versions, in its order."""
    names_found: list[str] = []
    for directory in sys.path:
        try:
            names = os.listdir(directory or ".")  # noqa: PTH208  # some hundred names
        except OSError:
            continue
        names_found += sorted(name for name in names if name.endswith((".dist-info", ".egg-info", ".egg-link")))
    return names_found
