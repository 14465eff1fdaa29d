"""tvmake: a declarative pipeline from trained models to tuned, validated packages built with Apache TVM."""

from __future__ import annotations

TYPE_CHECKING = False  # every step imports this module; typing would cost it 2 ms
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

__all__ = ["__version__", "open", "snakefile"]

__version__ = "0.2.0"


def snakefile() -> Path:
    """The workflow, for another one that takes it: ``module tvmake: snakefile: str(tvmake.snakefile())``."""
    from tvmake.storage.resources import snakefile as workflow

    return workflow()


def open(package: Path | str, threads: int | None = None) -> Any:  # the stub beside this file says of what class
    """A package, loaded into this process: ``tvmake.open("package.tar").run({"image": array})``.

    Args:
        package: a ``package.tar`` of this machine's processor or GPU.
        threads: of the CPU that kernels may use; None means all.

    Returns:
        A :class:`tvmake.running.package.Package`.

    Raises:
        InputError: the package is damaged, or made with another TVM than this one.
        DeviceError: it is for another processor, or for a device that this machine does not have.
    """
    from importlib import import_module

    # By name, because every room imports this module, and a stage's results depend on what its code imports.
    return import_module("tvmake.running.package").Package(package, threads)
