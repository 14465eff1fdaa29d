"""``export:`` — optional contents of a package."""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.options import Positive, Strict


class SelfTest(Strict):
    """A few inputs with the outputs of the original framework, by which a package tests itself."""

    samples: Positive = 2
    """Maximum number of inputs."""
    max_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 8.0
    """Largest size of inputs and outputs together, in MB of 10^6 bytes. Samples that do not fit are left out."""
    inputs: Literal["random", "dataset"] = "random"
    """Random inputs, because a package may go to people who may not see the dataset; or the first samples of the
    dataset."""


class ExportOptions(Strict):
    """Contents of a package."""

    self_test: SelfTest | bool = SelfTest()
    """The samples of ``tvmake run PACKAGE --self-test``; ``false`` for none. The expected outputs depend on this machine's
    processor, so only packages without a self-test are byte-identical when built on other processors. A sample passes if it
    reaches the default goals of the precision, or the model's own goals if they are weaker."""

    tokenizer: bool = True
    """Whether the package of a language model has the tokenizer.json of its directory, for ``tvmake run PACKAGE --prompt TEXT``."""

    @property
    def test(self) -> SelfTest | None:
        """The options of the self-test; None for no self-test."""
        return (SelfTest() if self.self_test else None) if isinstance(self.self_test, bool) else self.self_test
