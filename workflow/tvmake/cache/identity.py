"""The parts of this machine that can change a result's bytes: libraries, interpreter, processor, environment.

A library's version is not enough: builds of one version differ, and people patch installed files. So a library's identity is
the list of digests in its wheel's record; a library whose files have other sizes than recorded has none.
"""

import importlib.util
import os
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from tvmake.cache import loaded
from tvmake.cache.errors import NotCacheableError
from tvmake.storage.files import digest_bytes
from tvmake.targets.cpu.identity import cpu_identity

PREFIXES = (
    "TVM_", "TORCH", "PYTORCH_", "ATEN_", "ONNX_", "NPY_", "OMP_", "GOMP_", "KMP_", "GOTO_", "OPENBLAS_", "MKL_", "DNNL_",
    "NUMEXPR_", "BLIS_", "GLIBC_TUNABLES", "LD_PRELOAD", "LD_LIBRARY_PATH",
)  # fmt: skip
"""Variables that numerical libraries, torch, TVM and the loader go by begin with these."""

LINKER_VARIABLES = (
    "COMPILER_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LD_RUN_PATH", "LDEMULATION", "CPATH", "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH", "SOURCE_DATE_EPOCH", "CCC_OVERRIDE_OPTIONS", "GCC_COMPARE_DEBUG", "COLLECT_NO_DEMANGLE",
)  # fmt: skip
"""Variables that compiler drivers and linkers go by (gcc(1), ld(1), clang)."""

DISTRIBUTIONS = {
    "tvm": ("apache-tvm", "apache-tvm-ffi", "ml-dtypes"),
    "tvm_ffi": ("apache-tvm-ffi",),
    "numpy": ("numpy",),
    "ml_dtypes": ("ml-dtypes",),
    "torch": ("torch", "sympy"),
    "sympy": ("sympy",),
    "transformers": ("transformers", "huggingface-hub", "safetensors"),
    "PIL": ("pillow",),
    "onnx": ("onnx", "protobuf"),
    "jax": ("jax", "jaxlib"),
    "google": ("protobuf",),
    "tflite": ("tflite", "flatbuffers"),
    "pydantic": ("pydantic", "pydantic-core"),
    "pydantic_core": ("pydantic-core",),
    "packaging": ("packaging",),
    "cyclonedx": (
        "cyclonedx-python-lib",
        "py-serializable",
        "packageurl-python",
        "sortedcontainers",
        "license-expression",
    ),
    "packageurl": ("packageurl-python",),
}
"""The distributions of an import, including dependencies that affect bytes."""

SILENT = frozenset({"filelock", "platformdirs", "keras"})
"""Distributions without effect on bytes: they find directories or take locks. Keras reads models that run code and are never cached."""

HARMLESS = frozenset(
    {"TVM_BIND_THREADS", "TVM_TRACKER_HOST", "TVM_TRACKER_PORT", "TVM_TRACKER_KEY", "PYTORCH_NVML_BASED_CUDA_CHECK"}
)
"""The cores that threads are bound to, where devices are, and how torch looks for one: nothing hermetic goes by it."""


def machine() -> dict[str, str]:
    """The interpreter and the processor, whose vector units decide the last bit of folded weights."""
    return {
        "cpu": cpu_identity(),
        "machine": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def environment() -> dict[str, str]:
    """The variables that affect the output of libraries and linkers; with two values if they changed after libraries were
    loaded."""
    present, at_load = _relevant_variables(os.environ), _relevant_variables(loaded.ENVIRONMENT)
    changed = {
        f"{name} when loaded": at_load.get(name, "")
        for name in present.keys() | at_load
        if at_load.get(name) != present.get(name)
    }
    return dict(sorted((present | changed).items()))


def _relevant_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if (name.startswith(PREFIXES) and name not in HARMLESS) or name in LINKER_VARIABLES
    }


def libraries(imports: Iterable[str]) -> dict[str, str]:
    """Identities of the distributions behind imports, by name.

    Raises:
        NotCacheableError: one was not installed from a wheel, or was changed since; or an import is not in the list above.
    """
    wanted: set[str] = set()
    for name in set(imports) - SILENT:
        if name not in DISTRIBUTIONS:
            raise NotCacheableError(f"it may use {name}, which no key knows of")
        wanted.update(DISTRIBUTIONS[name])
        _check_origin(name, DISTRIBUTIONS[name][0])
    return {name: library(name) for name in sorted(wanted)}


@cache
def _check_origin(imported: str, distribution: str) -> None:
    """Check that an import finds the installed package rather than an earlier one on ``sys.path``."""
    try:
        spec = importlib.util.find_spec(imported)
        root = Path(str(metadata.distribution(distribution).locate_file("")))
    except (metadata.PackageNotFoundError, ValueError):
        return  # absent, which is a valid identity
    # A package in several directories (google) has no file.
    if spec and spec.origin and not Path(spec.origin).resolve().is_relative_to(root.resolve()):
        raise NotCacheableError(f"{imported} comes from {spec.origin}, not from the {distribution} that is installed")


@cache
def library(name: str) -> str:
    """``<version> <digest>`` of an installed distribution; ``absent`` if it is not installed.

    Raises:
        NotCacheableError: as for :func:`libraries`.
    """
    try:
        installed = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return "absent"
    known = sorted(
        (str(file), file.hash.value, file.size or 0)
        for file in installed.files or ()
        # Scripts and notes of the installer differ from one environment to the next, byte code from one Python to another.
        if file.hash and file.parts[0] != ".." and not file.parts[0].endswith(".dist-info") and file.suffix != ".pyc"
    )
    if not known:
        raise NotCacheableError(f"{name} was not installed from a wheel, so its version does not identify it")
    if any(_changed_since(installed.locate_file(file)) for file in installed.files or () if file.name == "RECORD"):
        raise NotCacheableError(f"{name} was installed while this ran")
    for path, _, size in known:
        file = str(installed.locate_file(path))
        try:
            same = os.stat(file).st_size == size  # noqa: PTH116  # thousands of files, and pathlib doubles the time
        except OSError:
            same = False
        if not same:
            raise NotCacheableError(f"{name} was changed since it was installed ({path})")
    return f"{installed.version} {digest_bytes(repr(known).encode())}"


def _changed_since(file: object) -> bool:
    return Path(str(file)).stat().st_mtime > loaded.AT


@cache
def backends() -> tuple[str, ...]:
    """Plug-ins that TVM loads itself, except tvmake's own, which does not affect builds."""
    points = [point for point in metadata.entry_points(group="tvm.backends") if not point.value.startswith("tvmake.")]
    return tuple(sorted(f"{point.name}={point.value} {point.dist.version if point.dist else ''}" for point in points))
