"""The error for a library that tvmake imports and that is not installed, or whose files are missing. It needs no library itself."""

from importlib import metadata

from tvmake.errors import MachineError


def missing_library(error: ModuleNotFoundError) -> MachineError | None:
    """The error that names the library and how to install it; None for modules of tvmake."""
    module = (error.name or "").partition(".")[0]
    if module in ("", "tvmake"):
        return None
    library = next(iter(metadata.packages_distributions().get(module, ())), None)
    if library is None:
        return MachineError("tvmake", f"its library {module} is not installed", f"pip install {module}")
    command = f"pip install --force-reinstall --no-deps '{library}=={metadata.version(library)}'"
    return MachineError("tvmake", f"files of its library {library} are missing", command)
