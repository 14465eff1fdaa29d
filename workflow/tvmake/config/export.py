"""``export:`` — what goes into a package besides what runs."""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.options import Positive, Strict


class SelfTest(Strict):
    """A few inputs, with what the original framework makes of them, by which a package tests itself."""

    samples: Positive = 2
    """How many inputs, at most."""
    max_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 8.0
    """Largest size of inputs and outputs together, in MB of 10^6 bytes: fewer samples where more do not fit, none where one does
    not."""
    inputs: Literal["random", "dataset"] = "random"
    """Made-up inputs, since a package may go to people who may not see the dataset; or the first ones of the dataset."""


class ExportOptions(Strict):
    """What goes into a package."""

    self_test: SelfTest | bool = SelfTest()
    """What ``tvmake run PACKAGE --self-test`` checks; ``false`` for none. Its numbers are those of the original framework on this
    machine's processor, so that packages are the same bytes on other kinds of processors only without it. A sample is right where it
    reaches the default goals of the precision, or the model's own where those ask for less."""

    @property
    def test(self) -> SelfTest | None:
        """The self-test that is wanted."""
        return (SelfTest() if self.self_test else None) if isinstance(self.self_test, bool) else self.self_test
