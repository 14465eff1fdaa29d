"""Options of the build and export stages."""

from pydantic import Field

from tvmake.codegen.options import PackageOptions
from tvmake.config.tuning import Share
from tvmake.options import Strict


class BuildRequest(PackageOptions):
    """One variant's build."""

    require_coverage: Share | None = None
    """Fail when records cover less than this share of the kernels' estimated time."""
    cpu: str | None = None
    """Identity of the compiling machine's CPU, for targets that depend on it."""


class ExportRequest(Strict):
    """What goes into one variant's package besides what was built."""

    goals: dict[str, float] = Field(default_factory=dict)
    """What each sample of the self-test has to reach, by the keys of ``validation.goals``."""
    quantized_goals: dict[str, float] | None = None
    """The same for a source that is quantised, which the manifest tells; None where they are no others."""
    why_not: str = ""
    """Why it has no self-test although one is wanted."""

    def goals_of(self, is_quantized: bool) -> dict[str, float]:
        """Those that hold for a package, by whether its source is quantised."""
        return self.quantized_goals if is_quantized and self.quantized_goals is not None else self.goals
