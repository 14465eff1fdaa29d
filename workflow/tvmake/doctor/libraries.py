"""Python, and the libraries tvmake needs or can use."""

import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tvmake import __version__
from tvmake.doctor.check import Check, last_line, output_of
from tvmake.doctor.hosts import python_problem
from tvmake.process.python import python_command
from tvmake.storage.permissions import how_to_permit

GROUP = "libraries"
IMPORT_TIMEOUT_S = 60.0

IMPORT_NAMES = {
    "torch": "torch",
    "ai-edge-litert": "ai_edge_litert.interpreter",
    "jax": "jax",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
}
"""Libraries with native code that are worth an import, by distribution."""

USES = {
    "torch": ".pt2 files, factories and the zoo",
    "ai-edge-litert": "references for .tflite models",
    "jax": "StableHLO files (.mlir)",
    "keras": ".keras and .h5 files",
    "transformers": "directories of language models",
    "tokenizers": "`tvmake run --prompt`",
    "s3fs": "records and caches on S3",
    "ziglang": "linking for Android and other Linux systems",
    "snakemake-executor-plugin-slurm": "`--profile slurm`",
    "snakemake-executor-plugin-lsf": "`--profile lsf`",
    "snakemake-executor-plugin-cluster-generic": "`--profile grid-engine`, `htcondor`, `kubernetes` and `generic`",
}
"""The use of each library of an extra, by distribution."""


def python() -> list[Check]:
    """The interpreter and tvmake itself."""
    version = platform.python_version()
    hint = python_problem()
    return [
        Check(GROUP, "python", "problem" if hint else "ok", f"{version}, {sys.executable}", hint, True),
        Check(GROUP, "tvmake", "ok", __version__, required=True),
    ]


def libraries() -> list[Check]:
    """Every library that tvmake declares, in its declared version; those of extras are optional."""
    try:
        # The extra `all` requires tvmake itself, with the other extras.
        declared = [
            entry for text in metadata.requires("tvmake") or () if (entry := Requirement(text)).name != "tvmake"
        ]
    except metadata.PackageNotFoundError:
        hint = "install tvmake with pip, from its checkout: pip install -e ."
        problem = "tvmake runs from files that are not installed"
        return [Check(GROUP, "tvmake's requirements", "problem", problem, hint, True)]
    sizes = Counter(map(_extra_of, declared))
    # A library of several extras is named once, with the smallest of them.
    by_size = sorted(declared, key=lambda entry: sizes[_extra_of(entry)] if _extra_of(entry) else 0, reverse=True)
    chosen = {entry.name: entry for entry in by_size}.values()
    return [
        _library(requirement, _extra_of(requirement))
        for requirement in sorted(chosen, key=lambda entry: (entry.marker is not None, entry.name))
    ]


def install(check: Check) -> bool:
    """Run a hint that is a command of pip, with this interpreter's pip; its output goes to standard error.

    Returns:
        Whether pip succeeded.
    """
    program, *arguments = shlex.split(check.hint)
    done = subprocess.run(python_command("-m", program, *arguments), stdout=2, check=False)
    return done.returncode == 0


def _extra_of(requirement: Requirement) -> str:
    """The extra that requires a library; empty for one that tvmake always needs."""
    return str(requirement.marker).partition("extra ==")[2].strip(" '\"") if requirement.marker else ""


def _library(requirement: Requirement, extra: str) -> Check:
    name = requirement.name
    use = f" (for {USES[name]})" if name in USES else ""
    requirement_text = f"{name}{requirement.specifier}"
    hint = f"pip install 'tvmake[{extra}]'" if extra else f"pip install '{requirement_text}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(GROUP, name, "missing", f"not installed{use}", hint, not extra)
    if not requirement.specifier.contains(version.partition("+")[0], prereleases=True):
        return Check(GROUP, name, "problem", f"{version}, but tvmake needs {requirement.specifier}", hint, not extra)
    if name in IMPORT_NAMES:
        code, output = output_of(python_command("-c", f"import {IMPORT_NAMES[name]}"), IMPORT_TIMEOUT_S)
        if code == 124:
            problem = f"{version}, but importing it takes over {IMPORT_TIMEOUT_S:.0f} s"
            return Check(GROUP, name, "problem", problem, hint, not extra)
        if code:
            reason = last_line(output) or f"exit code {code}"
            problem = f"{version}, but it cannot be imported: {reason}"
            return Check(GROUP, name, "problem", problem, _how_to_repair(name, version, output), not extra)
    elif not _has_files(name):
        problem = f"{version}, but its files are missing"
        return Check(GROUP, name, "problem", problem, _how_to_repair(name, version, ""), not extra)
    return Check(GROUP, name, "ok", version + use, required=not extra)


def _has_files(name: str) -> bool:
    """Whether a library that is installed has one of its modules."""
    normal = canonicalize_name(name)
    modules = [
        module
        for module, libraries in _modules().items()
        if not module.startswith("_") and normal in map(canonicalize_name, libraries)
    ]
    return not modules or any(find_spec(module) is not None for module in modules)


@cache
def _modules() -> Mapping[str, list[str]]:
    """The installed libraries of each module."""
    return metadata.packages_distributions()


def _how_to_repair(name: str, version: str, output: str) -> str:
    """The remedy for a library that is installed and cannot be imported."""
    if "Permission denied" in output:
        named = re.findall(r"Permission denied: '([^']+)'|(/[^\s:']+): [^\n]*Permission denied", output)
        directory = Path(next((file or library for file, library in reversed(named)), sysconfig.get_path("platlib")))
        return how_to_permit(directory, os.R_OK)
    return f"pip install --force-reinstall --no-deps '{name}=={version}'"
