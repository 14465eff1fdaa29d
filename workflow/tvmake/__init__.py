"""tvmake: a declarative pipeline from trained models to tuned, validated packages built with Apache TVM.

::

    model = tvmake.load("model.onnx")
    package = model.compile("native", tune=200)
    outputs = package.run({"image": array})

``load``, ``open`` and ``Results`` import what they need when they are used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # every step imports this module; typing would cost it 2 ms
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

__all__ = ["Model", "Package", "Results", "__version__", "generate", "load", "open", "snakefile"]

__version__ = "0.3.0.dev0"

_LATER = {
    "load": "api.model",
    "Model": "api.model",
    "Results": "api.results",
    "Package": "running.package",
    "generate": "running.generation",
}
"""By name, because every room imports this module, and a stage's results depend on what its code imports."""

_ELSEWHERE = {
    "compile": "tvmake.load(model).compile() makes a package",
    "build": "tvmake.load(model).compile() makes a package",
    "run": "tvmake.open(package).run(inputs) runs one",
    "from_onnx": "tvmake.load reads every format",
    "from_pytorch": "tvmake.load reads every format",
    "load_model": "tvmake.load reads a model, tvmake.open a package",
    "InferenceSession": "tvmake.open(package).run(inputs) runs one",
}
"""What other packages have functions for, and earlier tutorials."""


def __getattr__(name: str) -> Any:
    """What is imported when it is used; the stub beside this file says of what type."""
    if name not in _LATER:
        instead = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module 'tvmake' has no attribute '{name}'{instead}")
    from importlib import import_module

    import_module("tvmake.process.tvm_import").hide_torch_from_tvm()
    return getattr(import_module(f"tvmake.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def snakefile() -> Path:
    """The workflow, for another one that takes it: ``module tvmake: snakefile: str(tvmake.snakefile())``."""
    from tvmake.storage.resources import snakefile as workflow

    return workflow()


def open(package: Path | str, threads: int | None = None) -> Any:
    """A package: ``tvmake.open("package.tar").run({"image": array})``.

    Its digests are checked; its code is loaded into this process when it runs first, and stays as long as the process lives.
    Threads may share it: their runs take turns.

    Args:
        package: a ``package.tar``.
        threads: of the CPU that kernels may use; None means all.

    Returns:
        A :class:`tvmake.Package`.

    Raises:
        InputError: the package is damaged, or there is none.
    """
    return __getattr__("Package")(package, threads)
