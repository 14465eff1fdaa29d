"""Export: mod.so, mod.json and mod.params become one package."""

from pathlib import Path

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.stages.descriptor import Input, Log, Output, Stage


def export(lib: Path, manifest: Path, weights: Path, package: Path) -> None:
    """Write the package (tar); the same files give the same bytes.

    Raises:
        InputError: a file does not match the manifest.
    """
    from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack

    pack({LIBRARY: lib, MANIFEST: manifest, WEIGHTS: weights}, package)


STAGE = Stage(
    name="export",
    summary="Pack library, manifest and weights into one package.",
    function=export,
    inputs=(Input("mod.so", "lib"), Input("mod.json", "manifest"), Input("mod.params", "weights")),
    outputs=(Output("package.tar", paths.VARIANT, "package", "Package to write (tar).", has_parts=True),),
    logs=(Log("logs/{model}/{precision}/{target}/export.log"),),
    subject=lambda given: given["package"],
    is_goal=True,
    is_hermetic=True,
    recipe=Recipe(is_machine_independent=True),
    memory_mb=600,
    minutes=10,
)
