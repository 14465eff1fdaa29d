"""Import modules that a user's config names: they may lie in the working directory."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tvmake.errors import InputError


def import_named(name: str, where: str) -> ModuleType:
    """Import a module that is installed, or lies in the working directory.

    The working directory comes last, in this process and from now on: no file in it takes the place of a module that Python or
    a library wants.

    Args:
        name: of the module, with dots.
        where: what names it, for errors.

    Raises:
        InputError: a file of the user's has the name of another module, which would be imported in its place.
        Exception: whatever importing it raises.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    _check_not_hidden(name.partition(".")[0], where)
    return importlib.import_module(name)


def _check_not_hidden(name: str, where: str) -> None:
    own = next((path for path in (Path(f"{name}.py"), Path(name, "__init__.py")) if path.is_file()), None)
    if own is None:
        return
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # a module that was made by hand
        return
    if spec is not None and not (spec.origin and Path(spec.origin).exists() and own.samefile(spec.origin)):
        raise InputError(
            where,
            f"{own} has the name of another Python module ({spec.origin or name}), which is found before it",
            "give the file another name",
        )
