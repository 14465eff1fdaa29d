"""Fingerprints of a stage's code: digests of its modules, and the versions of the libraries that they import.

Snakemake does not see changes in imported packages, so every rule has this fingerprint as a parameter. The modules are
found by following ``import`` statements from the stage's module, including those inside functions and without those for
type checkers, and the entry points of child processes. A stage reruns exactly if code that it can reach changes.
"""

import hashlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = "tvmake"
PACKAGE_ROOT = Path(__file__).resolve().parents[1]

DISTRIBUTIONS = {
    "tvm": ("apache-tvm", "apache-tvm-ffi"),
    "torch": ("torch",),
    "transformers": ("transformers",),
    "onnx": ("onnx",),
    "onnxruntime": ("onnxruntime",),
    "tflite": ("tflite",),
    "ai_edge_litert": ("ai-edge-litert",),
    "jax": ("jax", "jaxlib"),
    "numpy": ("numpy",),
    "PIL": ("pillow",),
    "cyclonedx": ("cyclonedx-python-lib",),
}
"""Libraries whose version can change a result, by import name."""

_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n#]*)|import\s+([\w., ]+))", re.MULTILINE)

_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)+", re.MULTILINE)
"""Imports that only a type checker reads."""


_STARTED = re.compile(rf'"({PACKAGE}(?:\.\w+)+):\w+"|"-m", "({PACKAGE}(?:\.\w+)+)"(?:, "({PACKAGE}(?:\.\w+)+)")?')
"""Entry points of child processes: ``"module:function"``, and the arguments of ``python -m``."""


@cache
def fingerprint(*roots: str) -> str:
    """Digest of the package modules reachable from ``roots`` and of the library versions they use.

    Args:
        roots: dotted module names inside the package.
    """
    sha256 = hashlib.sha256()
    for name, value in parts(*roots).items():
        sha256.update(f"{name} {value}\n".encode())
    return sha256.hexdigest()


def parts(*roots: str) -> dict[str, str]:
    """The parts of a :func:`fingerprint`: the digest of each module's text, and the version of each library."""
    modules, libraries = reachable(*roots)
    distributions = [name for library in libraries for name in DISTRIBUTIONS[library]]
    return {module: _digest(module) for module in modules} | {name: version(name) for name in distributions}


def reachable(*roots: str) -> tuple[list[str], list[str]]:
    """The package's modules that ``roots`` import, and the libraries among them that can change results; both sorted."""
    modules: set[str] = set()
    libraries: set[str] = set()
    pending = list(roots)
    while pending:
        module = pending.pop()
        if module in modules:
            continue
        if _file(module) is None:  # a typo here would silently stop reruns
            raise ValueError(f"{module} is not a module of {PACKAGE}")
        modules.add(module)
        for name in _imports(module):
            top = name.partition(".")[0]
            if top == PACKAGE:
                pending.append(name)
            elif top in DISTRIBUTIONS:
                libraries.add(top)
    return sorted(modules), sorted(libraries)


def third_party_imports(*roots: str) -> list[str]:
    """Top-level names of the third-party packages that modules reachable from ``roots`` import."""
    modules, _ = reachable(*roots)
    names = {name.partition(".")[0] for module in modules for name in _imports(module)}
    return sorted(names - {PACKAGE, ""} - sys.stdlib_module_names)


def changed_at(*roots: str) -> float:
    """When the newest of the modules reachable from ``roots`` was modified, in seconds since 1970."""
    modules, _ = reachable(*roots)
    return max(file.stat().st_mtime for module in modules if (file := _file(module)) is not None)


@cache
def version(distribution: str) -> str:
    """The installed version of a library, or ``absent``."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "absent"


@cache
def _file(module: str) -> Path | None:
    base = PACKAGE_ROOT.joinpath(*module.split(".")[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file() and module.partition(".")[0] == PACKAGE:
            return candidate
    return None


@cache
def _source(module: str) -> str:
    file = _file(module)
    assert file is not None
    return file.read_text(encoding="utf-8")


@cache
def _digest(module: str) -> str:
    return hashlib.sha256(_source(module).encode()).hexdigest()


@cache
def _imports(module: str) -> tuple[str, ...]:
    source = _FOR_TYPES.sub("", _source(module))
    return (*_resolve(_IMPORT.findall(source)), *(name for names in _STARTED.findall(source) for name in names if name))


def _resolve(statements: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    for source, names, plain in statements:
        if plain:
            yield from (name.split(" as ")[0].strip() for name in plain.split(","))
            continue
        yield source
        for entry in names.strip("()").replace("\n", " ").split(","):
            # `from tvmake.frontend import zoo` names a module, `from tvmake.errors import InputError` does not.
            name = entry.split(" as ")[0].strip()
            submodule = f"{source}.{name}"
            if name and source.startswith(PACKAGE) and _file(submodule):
                yield submodule
