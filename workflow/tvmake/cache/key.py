"""What a hermetic stage's result is made of; the sha256 of that is the key it is cached under.

A key holds everything that can change a byte of the outputs and nothing else. Where inputs lie is no part of it; the
digests of their content are. What cannot be known (code of the user, a compiler that does not say what it reads) makes a
result not cacheable.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmake.artifact.files import canonical_json, digest_bytes, digest_file
from tvmake.cache import identity, loaded
from tvmake.cache.trouble import NotCacheableError
from tvmake.config.base import Strict
from tvmake.config.model import ImportOptions
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.transforming import TransformRequest
from tvmake.config.requests.tuning import ExtractRequest
from tvmake.config.target import TargetConfig
from tvmake.config.transform import UserPass
from tvmake.plan.fingerprint import changed_at, fingerprint, foreign
from tvmake.plan.formats import FRONTENDS
from tvmake.plan.model_files import model_files

KEY_VERSION = 1
"""Of what a key is made of; another one makes every key another one."""

KINDS = frozenset({"llvm", "opencl"})
"""Targets whose code TVM generates by itself. For the others further compilers are at work (nvcc, xcrun, a C compiler
with the system's headers), or TVM asks this machine's devices."""

Material = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """One run of a stage, as far as its result depends on it."""

    stage: str
    request: Strict | None
    """The stage's options."""
    inputs: Mapping[str, Path]
    """Files that are read, by what they are to the stage."""
    outputs: Mapping[str, Path]
    """Files and directories that are written, by what they are to the stage."""

    def files(self) -> dict[str, Path]:
        """Every file that is read, those that only the options name among them."""
        return {**self.inputs, **_recipe(self).files(self.request)}


@dataclass(frozen=True)
class Recipe:
    """What a stage's result depends on besides its options and inputs."""

    module: str
    refuse: Callable[[Any], None] = lambda _: None
    """Raises NotCacheableError for options whose result may depend on more."""
    code: Callable[[Any], tuple[str, ...]] = lambda _: ()
    """Further modules that are imported by name."""
    files: Callable[[Any], dict[str, Path]] = field(default=lambda _: {})
    """Files that only the options name."""
    compiler: Callable[[Any], dict[str, str] | None] = lambda _: None
    on_any_machine: bool = False
    """Whether bytes are only moved, so that processor and interpreter do not matter."""


def material(work: Work) -> Material:
    """Everything that can change a byte of a stage's outputs, as JSON values.

    Raises:
        NotCacheableError: that cannot be known.
        OSError: an input cannot be read.
    """
    recipe = _recipe(work)
    recipe.refuse(work.request)
    roots = (recipe.module, *recipe.code(work.request))
    if changed_at(*roots) > loaded.AT:
        raise NotCacheableError("tvmake's own code was changed while this ran")
    made: Material = {
        "version": KEY_VERSION,
        "stage": work.stage,
        "options": work.request.model_dump(mode="json", exclude_defaults=True) if work.request else None,
        "code": fingerprint(*roots),
        "libraries": identity.libraries(foreign(*roots)),
        "outputs": sorted(work.outputs),
        "inputs": [[role, digest_file(path)] for role, path in work.files().items()],
    }
    if not recipe.on_any_machine:
        made |= {
            "machine": identity.machine(),
            "environment": identity.environment(),
            "backends": list(identity.backends()),
        }
    if (compiler := recipe.compiler(work.request)) is not None:
        made["compiler"] = compiler
    return made


def key(made: Material) -> str:
    """The sha256, in hex, that a result is cached under."""
    return digest_bytes(canonical_json(made).encode())


def _recipe(work: Work) -> Recipe:
    try:
        return RECIPES[work.stage]
    except KeyError:
        raise NotCacheableError(f"{work.stage} does more than its inputs say") from None


def _refuse_code_of_models(options: ImportOptions) -> None:
    kind = options.source_format()
    if kind == "factory" or options.trusted:
        raise NotCacheableError(f"importing {options.source} runs code of its own, which may read anything")
    if kind not in FRONTENDS:
        raise NotCacheableError(f"{options.source} is of no known format")


def _import_files(options: ImportOptions) -> dict[str, Path]:
    # source.json names them, so their names count.
    return {f"model file {file}": Path(file) for file in model_files(options)}


def _refuse_passes(passes: list[UserPass]) -> None:
    if passes:
        raise NotCacheableError(f"the pass {passes[0].use} is code of yours, which may read anything")


def _refuse_targets(wanted: TargetConfig, where: str) -> None:
    kind = _kind(wanted, where)
    if kind not in KINDS:
        raise NotCacheableError(f"for {kind} other compilers or this machine's devices have a say")


def _kind(wanted: TargetConfig, where: str) -> str:
    if wanted.entry is not None:
        return wanted.entry.kind
    if wanted.tag is None:
        return wanted.kind or "llvm"
    from tvmake.target.resolve import tvm_target  # takes a second, and only a tag of TVM's needs it

    return str(tvm_target(wanted, where).kind.name)


def _refuse_extract(request: ExtractRequest) -> None:
    _refuse_passes(request.passes)
    _refuse_targets(request.target, f"targets.{request.target_name}")


def _refuse_build(request: BuildRequest) -> None:
    _refuse_passes(request.passes)
    _refuse_targets(request.target, f"targets.{request.target_name}")


def _refuse_transform(request: TransformRequest) -> None:
    _refuse_passes(request.transform.passes)


def _build_compiler(request: BuildRequest) -> dict[str, str]:
    from tvmake.cache.compiler import compiler_identity

    where = f"targets.{request.target_name}"
    if request.target.tag is not None and request.target.entry is None:
        from tvmake.target.resolve import linker  # only TVM knows its tags' hosts
    else:
        from tvmake.target.toolchain import compiler_driver as linker
    return compiler_identity(linker(request.target, where))


RECIPES = {
    "import": Recipe(
        "tvmake.stages.import_model",
        refuse=_refuse_code_of_models,
        code=lambda options: FRONTENDS[str(options.source_format())],
        files=_import_files,
    ),
    "transform": Recipe("tvmake.stages.transform", refuse=_refuse_transform),
    "extract": Recipe("tvmake.stages.extract", refuse=_refuse_extract),
    "build": Recipe("tvmake.stages.build", refuse=_refuse_build, compiler=_build_compiler),
    "export": Recipe("tvmake.stages.export", on_any_machine=True),
}
"""The stages whose results are cached. The others measure, ask a device, or read the store of records, which changes;
reference is what packages are judged by, and that each machine finds out for itself."""
