"""Options of the build and export stages."""

from pydantic import Field

from tvmake.codegen.options import PackageOptions
from tvmake.config.tuning import Share
from tvmake.options import Strict


class BuildRequest(PackageOptions):
    """Build of one variant."""

    require_coverage: Share | None = None
    """Fail if records cover less than this fraction of the kernels' estimated time."""
    separate_states: list[str] = Field(default_factory=list, exclude_if=lambda names: not names)
    """Names of states that each function has for itself."""
    cpu: str | None = None
    """Identity of the compiling machine's CPU, for targets that depend on it."""


class ExportRequest(Strict):
    """Self-test of one variant's package."""

    goals: dict[str, float] = Field(default_factory=dict)
    """Goals of each sample of the self-test, by the keys of ``validation.goals``."""
    quantized_goals: dict[str, float] | None = None
    """Goals for a quantised source, as recorded in the manifest; None if they are the same."""
    why_not: str = ""
    """The reason for a missing self-test that the config requests."""
    tokenizer: str | None = Field(default=None, exclude_if=lambda tokenizer: tokenizer is None)
    """The tokenizer.json to pack."""

    def goals_of(self, is_quantized: bool) -> dict[str, float]:
        """Return the goals of a package with a quantised or a floating-point source."""
        return self.quantized_goals if is_quantized and self.quantized_goals is not None else self.goals


class JoinRequest(Strict):
    """Join of the packages of a model's functions."""

    model: str
    precision: str
    target_name: str
    functions: list[str]
    """The functions' names, in the order of the config."""
    links: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By function: its outputs that others take, with the names of their inputs or states."""
    separate_states: list[str] = Field(default_factory=list)
    """Names of states that each function has for itself."""
