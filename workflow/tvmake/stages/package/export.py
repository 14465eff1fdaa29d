"""Export: put mod.so, mod.json and the packed weights into one package, with a few samples for its self-test."""

from __future__ import annotations

from pathlib import Path

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.building import ExportRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage, network_input
from tvmake.stages.package.contents import export_request, sample_files, tokenizer_files
from tvmake.storage.temporary import temporary_directory


def export(
    lib: Path,
    manifest: Path,
    packing: Path,
    params: Path,
    request: ExportRequest,
    package: Path,
    samples: Path | None = None,
) -> None:
    """Write the package (tar); the same files give the same bytes.

    Args:
        packing: how to pack the weights for the library's kernels.
        params: the weights as the network has them.
        request: goals of the self-test, and the tokenizer.
        samples: samples of the self-test (a reference set); None for a package without one.

    Raises:
        InputError: a file does not match the manifest, the samples are damaged, or the tokenizer has tokens that the network lacks.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.language_model import language_model
    from tvmake.artifact.manifest import SelfTest
    from tvmake.artifact.package import LIBRARY, MANIFEST, SELF_TEST, WEIGHTS, load_manifest, pack
    from tvmake.artifact.tokenizer_file import TOKENIZER, check_vocabulary
    from tvmake.provenance.statement import with_files
    from tvmake.stages.package.weights import weights_writer
    from tvmake.validate.reference.stored import ReferenceSet, write_samples

    files = {LIBRARY: lib, MANIFEST: manifest}
    write_weights = weights_writer(packing, params)
    if write_weights is None:
        files[WEIGHTS] = params
    has_self_test = samples is not None or bool(request.why_not)
    if not has_self_test and request.tokenizer is None:
        pack(files, package, write_weights)
        return
    with temporary_directory("tvmake-export-") as directory:
        built = load_manifest(manifest, str(manifest))
        self_test = SelfTest(why_not=request.why_not) if has_self_test else None
        if request.tokenizer is not None:
            files[TOKENIZER] = Path(request.tokenizer)
            check_vocabulary(files[TOKENIZER], language_model(built.signature).vocabulary)
            built = with_files(built, {TOKENIZER: files[TOKENIZER]})
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
        pack(files, package, write_weights)


STAGE = Stage(
    name="export",
    summary="Put library, manifest and packed weights into one package.",
    function=export,
    inputs=(
        Input("mod.so", "lib"),
        Input("mod.json", "manifest"),
        Input("packing.json", "packing"),
        network_input("module.params", "params"),
        Input(
            "self_test.npz",
            "samples",
            sample_files,
            "Samples of the self-test, with expected outputs.",
            is_optional=True,
        ),
        Input(files=tokenizer_files),
    ),
    outputs=(Output("package.tar", paths.VARIANT, "package", "Package to write (tar).", has_parts=True),),
    logs=(Log("{model}/{precision}/{target}/export.log"),),
    request_model=ExportRequest,
    request=export_request,
    subject=lambda arguments: arguments["package"],
    is_goal=True,
    is_hermetic=True,
    recipe=Recipe(
        is_machine_independent=True,
        files=lambda request: {"tokenizer": Path(request.tokenizer)} if request.tokenizer else {},
    ),
    memory_mb=1500,
    minutes=10,
    preload=("tvmake.codegen.weights",),
)
