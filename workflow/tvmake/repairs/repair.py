"""Description of a defect of another project that tvmake works around."""

from dataclasses import dataclass
from typing import Literal

Layer = Literal["import", "graph", "schedule", "code generation", "runtime", "workflow"]

NOT_REPORTED = "not reported yet"


@dataclass(frozen=True)
class Repair:
    """A defect of another project that tvmake works around.

    The reproducer is ``upstream/<project>/<name>.py`` with underscores in the name: a script that exits with 1 while the
    defect exists.
    """

    name: str
    """In kebab-case; the modules that work around the defect say ``Repair: `name`.``"""
    layer: Layer
    defect: str
    effect: str
    """Effect on users without the repair."""
    project: str = "tvm"
    releases: str = "0.27"
    """Releases with the defect."""
    upstream: str = NOT_REPORTED
    """The issue or change of the other project."""
    applies_to: tuple[str, ...] = ()
    """Affected backends; all if empty."""
    no_probe: str = ""
    """The reason for a missing reproducer; empty if there is one."""

    @property
    def probe(self) -> str | None:
        """The path of the reproducer; None if there is none."""
        return None if self.no_probe else f"upstream/{self.project}/{self.name.replace('-', '_')}.py"
