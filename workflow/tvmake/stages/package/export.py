"""Export: pack mod.so, mod.json and mod.params into one package, with a few samples for its self-test."""

from __future__ import annotations

from pathlib import Path

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.building import ExportRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.package.contents import export_request, sample_files
from tvmake.storage.temporary import temporary_directory


def export(
    lib: Path, manifest: Path, weights: Path, request: ExportRequest, package: Path, samples: Path | None = None
) -> None:
    """Write the package (tar); the same files give the same bytes.

    Args:
        samples: samples of the self-test (a reference set); None for a package without one.

    Raises:
        InputError: a file does not match the manifest, or the samples are damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.manifest import SelfTest
    from tvmake.artifact.package import LIBRARY, MANIFEST, SELF_TEST, WEIGHTS, load_manifest, pack
    from tvmake.provenance.statement import with_files
    from tvmake.validate.reference.stored import ReferenceSet, write_samples

    files = {LIBRARY: lib, MANIFEST: manifest, WEIGHTS: weights}
    if samples is None and not request.why_not:
        pack(files, package)
        return
    with temporary_directory("tvmake-export-") as directory:
        built = load_manifest(manifest, str(manifest))
        self_test = SelfTest(why_not=request.why_not)
        if samples is not None:
            known = ReferenceSet(samples)
            self_test = SelfTest(
                samples=len(known),
                inputs=known.info.data,
                reference=known.info.runtime,
                goals=request.goals_of(built.is_source_quantized),
                why_not=known.info.why_not,
            )
            if len(known):
                files[SELF_TEST] = Path(directory) / SELF_TEST
                write_samples(files[SELF_TEST], known)
                built = with_files(built, {SELF_TEST: files[SELF_TEST]})
        files[MANIFEST] = Path(directory) / MANIFEST
        stage_json.save(built.model_copy(update={"self_test": self_test}).sealed(), files[MANIFEST])
        pack(files, package)


STAGE = Stage(
    name="export",
    summary="Pack library, manifest and weights into one package.",
    function=export,
    inputs=(
        Input("mod.so", "lib"),
        Input("mod.json", "manifest"),
        Input("mod.params", "weights"),
        Input(
            "self_test.npz",
            "samples",
            sample_files,
            "Samples of the self-test, with expected outputs.",
            is_optional=True,
        ),
    ),
    outputs=(Output("package.tar", paths.VARIANT, "package", "Package to write (tar).", has_parts=True),),
    logs=(Log("{model}/{precision}/{target}/export.log"),),
    request_model=ExportRequest,
    request=export_request,
    subject=lambda arguments: arguments["package"],
    is_goal=True,
    is_hermetic=True,
    recipe=Recipe(is_machine_independent=True),
    memory_mb=600,
    minutes=10,
)
