"""mod.json of a package with several functions, each a network with a signature of its own, over one set of weights.

Such a package has a directory for each function, with the files of a package except its weights: ``decode/mod.json``,
``decode/mod.so``, perhaps ``decode/self_test.npz``. One ``mod.params`` has the weights of all, each distinct tensor once.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.manifest import FileEntry
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import canonical_json, digest_bytes

FUNCTIONS_SCHEMA_VERSION: Final = 5

LINKS_SCHEMA_VERSION: Final = 6
"""With links, or states that functions do not share. Packages have the oldest version that suffices."""

JOIN_TYPE: Final = "urn:tvmake:join:v1"
"""The build type in the provenance of packages that were joined."""

MOST_FUNCTIONS = 16

FunctionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class _Part(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FunctionEntry(_Part):
    """One function of the package."""

    name: FunctionName
    """Also the name of its directory."""
    weights: tuple[str, ...]
    """The names of its parameters in mod.params, in the order of its own manifest's ``parameters``."""
    links: dict[str, str] = Field(default_factory=dict, exclude_if=lambda links: not links)
    """The outputs that other functions take, each with the name of their input or state (``tvmake.artifact.links``)."""


class FunctionsManifest(_Part):
    """The content of mod.json; every field is a function of the inputs, so rebuilding gives the same bytes."""

    schema_version: Literal[5, 6] = FUNCTIONS_SCHEMA_VERSION
    model: str
    precision: str
    target_name: str
    functions: tuple[FunctionEntry, ...] = Field(min_length=1, max_length=MOST_FUNCTIONS)
    separate_states: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Names of states that each function has for itself."""
    files: dict[str, FileEntry]
    """mod.params, and the files of the functions' directories, by their names in the package."""
    provenance: dict[str, Any] = Field(default_factory=dict)
    """An in-toto statement (v1) with an SLSA provenance predicate, unsigned."""
    own_sha256: str = ""
    """sha256 of this manifest without this field, as canonical JSON: it detects copying errors and edits, not forgery."""

    def sealed(self) -> "FunctionsManifest":
        """This manifest with its version and its own digest filled in."""
        has_links = self.separate_states or any(function.links for function in self.functions)
        version = LINKS_SCHEMA_VERSION if has_links else FUNCTIONS_SCHEMA_VERSION
        versioned = self.model_copy(update={"schema_version": version})
        return versioned.model_copy(update={"own_sha256": versioned._digest()})

    @property
    def is_intact(self) -> bool:
        """Whether the content is unchanged since it was sealed."""
        return self.own_sha256 == self._digest()

    def _digest(self) -> str:
        return digest_bytes(canonical_json(self.model_dump(mode="json", exclude={"own_sha256"})).encode())
