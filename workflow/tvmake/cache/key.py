"""The description of everything that a hermetic stage's result depends on; its sha256 is the cache key.

A key covers everything that can change a byte of the outputs, and nothing else. Paths of inputs are not part of it; digests of
their content are. Unknown influences (user code, a compiler that does not report its input files) make a result not
cacheable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tvmake.cache import identity, loaded
from tvmake.cache.errors import NotCacheableError
from tvmake.cache.recipe import Recipe
from tvmake.storage.code_fingerprint import changed_at, fingerprint, third_party_imports
from tvmake.storage.files import canonical_json, digest_bytes, digest_file
from tvmake.targets.code_kind import foreign_kind
from tvmake.targets.options import TargetOptions

KEY_VERSION = 1
"""Version of the description's format; a new version changes every key."""

Material = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """One run of a stage, as far as its result depends on it."""

    stage: str
    recipe: Recipe | None
    """Other influences on the result; None for a stage that is not cached."""
    roots: Sequence[str]
    """The modules that the stage's code begins with."""
    request: BaseModel | None
    """The stage's options."""
    inputs: Mapping[str, Path]
    """Input files, by their role in the stage."""
    outputs: Mapping[str, Path]
    """Output files and directories, by their role in the stage."""

    def files(self) -> dict[str, Path]:
        """All input files, including those that only the options name."""
        more = self.recipe.files if self.recipe else None
        return {**self.inputs, **(more(self.request) if more else {})}


def material(work: Work) -> Material:
    """Everything that can change a byte of a stage's outputs, as JSON values.

    Raises:
        NotCacheableError: that cannot be known.
        OSError: an input cannot be read.
    """
    recipe = work.recipe
    if recipe is None:
        raise NotCacheableError(f"{work.stage} does more than its inputs determine")
    _refuse(recipe, work.request)
    if changed_at(*work.roots) > loaded.AT:
        raise NotCacheableError("tvmake's own code was changed while this ran")
    content: Material = {
        "version": KEY_VERSION,
        "stage": work.stage,
        "options": work.request.model_dump(mode="json", exclude_defaults=True) if work.request else None,
        "code": fingerprint(*work.roots),
        "libraries": identity.libraries(third_party_imports(*work.roots)),
        "outputs": sorted(work.outputs),
        "inputs": [[role, digest_file(path)] for role, path in work.files().items()],
    }
    if not recipe.is_machine_independent:
        content |= {
            "machine": identity.machine(),
            "environment": identity.environment(),
            "backends": list(identity.backends()),
        }
    if recipe.is_linked and recipe.target:
        content["compiler"] = _compiler(*recipe.target(work.request))
    return content


def key(content: Material) -> str:
    """The sha256, in hex, that a result is cached under."""
    return digest_bytes(canonical_json(content).encode())


def _refuse(recipe: Recipe, request: Any) -> None:
    """Raise NotCacheableError for a request whose result may depend on something outside the key."""
    if recipe.refusal and (reason := recipe.refusal(request)):
        raise NotCacheableError(reason)
    if recipe.user_passes and (passes := recipe.user_passes(request)):
        raise NotCacheableError(f"the pass {passes[0].use} is code of yours, which may read anything")
    if recipe.target:
        name, target = recipe.target(request)
        if kind := foreign_kind(target, f"targets.{name}"):
            raise NotCacheableError(f"for {kind} the result depends on other compilers or on this machine's devices")


def _compiler(name: str, target: TargetOptions) -> dict[str, str]:
    from tvmake.cache.compiler import compiler_identity

    if target.tag is not None and target.entry is None:
        from tvmake.targets.resolve import linker  # only TVM knows its tags' hosts
    else:
        from tvmake.targets.toolchain import compiler_driver as linker
    return compiler_identity(linker(target, f"targets.{name}"))
