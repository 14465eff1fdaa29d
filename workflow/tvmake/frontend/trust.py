"""Refuse untrusted sources whose loading runs code."""

from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions

RUNS_CODE = {
    "factory": "a factory is Python code that the import would run",
    "relax": "a function that builds a Relax module is Python code that the import would run",
    "torchscript": "loading a TorchScript archive runs code that it contains",
    "keras": "loading a Keras model can run code that it brings along",
}
"""Formats whose loading can run code, and why."""


def check_trusted(options: ImportOptions) -> None:
    """Refuse a source that would run code, unless the config trusts it.

    Raises:
        InputError: the source is not trusted.
    """
    problem = RUNS_CODE.get(str(options.source_format()))
    if problem and not options.trusted:
        raise InputError(
            options.source,
            problem,
            "if you trust it, set `trusted: true`",
        )
