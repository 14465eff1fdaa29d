"""Export: mod.so, mod.json and mod.params become one package, with a few samples by which it can test itself."""

from __future__ import annotations

from pathlib import Path

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.building import ExportRequest
from tvmake.stages.descriptor import Input, JobContext, Log, Output, Stage
from tvmake.storage.temporary import temporary_directory


def export(
    lib: Path, manifest: Path, weights: Path, request: ExportRequest, package: Path, reference: Path | None = None
) -> None:
    """Write the package (tar); the same files give the same bytes.

    Args:
        reference: what the self-test's samples are taken from (a reference set); None for a package without one.

    Raises:
        InputError: a file does not match the manifest, or the reference set is damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.manifest import SelfTest
    from tvmake.artifact.package import LIBRARY, MANIFEST, SELF_TEST, WEIGHTS, load_manifest, pack
    from tvmake.provenance.statement import with_files

    files = {LIBRARY: lib, MANIFEST: manifest, WEIGHTS: weights}
    if reference is None and not request.why_not:
        pack(files, package)
        return
    with temporary_directory("tvmake-export-") as directory:
        built = load_manifest(manifest, str(manifest))
        described, samples = SelfTest(why_not=request.why_not), Path(directory) / SELF_TEST
        if reference is not None and request.self_test is not None:
            from tvmake.validate.self_test import write_self_test

            described = write_self_test(reference, request.self_test, request.goals, samples)
        if samples.is_file():
            files[SELF_TEST] = samples
            built = with_files(built, {SELF_TEST: samples})
        files[MANIFEST] = Path(directory) / MANIFEST
        stage_json.save(built.model_copy(update={"self_test": described}).sealed(), files[MANIFEST])
        pack(files, package)


def export_request(job: JobContext) -> ExportRequest:
    """What goes into the package besides what was built."""
    test = job.export.test
    if test is None:
        return ExportRequest()
    if test.inputs == "random" and job.model_config.dataset and job.precision_config.base == "int8":
        why_not = (
            "8-bit ranges from a dataset do not fit made-up inputs; export.self_test.inputs: dataset takes its samples"
        )
        return ExportRequest(why_not=why_not)
    return ExportRequest(self_test=test, goals=job.goals.of_errors)


def reference_files(job: JobContext) -> list[str]:
    """The reference set, for a package with a self-test."""
    return [job.file("reference.npz")] if export_request(job).self_test else []


STAGE = Stage(
    name="export",
    summary="Pack library, manifest and weights into one package.",
    function=export,
    inputs=(
        Input("mod.so", "lib"),
        Input("mod.json", "manifest"),
        Input("mod.params", "weights"),
        Input(
            "reference.npz",
            "reference",
            reference_files,
            "What the samples of the package's self-test are taken from.",
            is_optional=True,
        ),
    ),
    outputs=(Output("package.tar", paths.VARIANT, "package", "Package to write (tar).", has_parts=True),),
    logs=(Log("logs/{model}/{precision}/{target}/export.log"),),
    request_model=ExportRequest,
    request=export_request,
    subject=lambda given: given["package"],
    is_goal=True,
    is_hermetic=True,
    recipe=Recipe(is_machine_independent=True),
    memory_mb=600,
    minutes=10,
)
