"""Export: mod.so, mod.json and mod.params become one package, with a few samples by which it can test itself."""

from __future__ import annotations

from pathlib import Path

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.building import ExportRequest
from tvmake.config.validation import Goals, default_goals
from tvmake.stages.descriptor import Input, JobContext, Log, Output, Stage
from tvmake.storage.temporary import temporary_directory


def export(
    lib: Path, manifest: Path, weights: Path, request: ExportRequest, package: Path, samples: Path | None = None
) -> None:
    """Write the package (tar); the same files give the same bytes.

    Args:
        samples: what the package tests itself by (a reference set); None for a package without a self-test.

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
        described = SelfTest(why_not=request.why_not)
        if samples is not None:
            known = ReferenceSet(samples)
            described = SelfTest(
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
        stage_json.save(built.model_copy(update={"self_test": described}).sealed(), files[MANIFEST])
        pack(files, package)


def export_request(job: JobContext) -> ExportRequest:
    """What goes into the package besides what was built."""
    test = job.export.test
    if test is None:
        return ExportRequest()
    if test.inputs == "random" and job.model_config.dataset and job.precision_config.is_calibrated:
        why_not = (
            "8-bit ranges from a dataset do not fit made-up inputs; export.self_test.inputs: dataset takes its samples"
        )
        return ExportRequest(why_not=why_not)
    goals = self_test_goals(job.goals, default_goals(job.precision_config.base))
    if not goals:
        return ExportRequest(
            why_not="the model's goals say neither sqnr_db, max_abs_rms nor equal, which it is judged by"
        )
    others = None
    if job.quantized_goals is not None:
        others = self_test_goals(job.quantized_goals, default_goals(job.precision_config.base, is_quantized=True))
    return ExportRequest(goals=goals, quantized_goals=others)


def self_test_goals(goals: Goals, defaults: Goals) -> dict[str, float]:
    """What tells a right device from a wrong one: the default bounds, or the model's own where those ask for less.

    Stricter ones say how good the model is to be, which validation finds out; they make no other package.
    """
    least = {name: (getattr(defaults, name), getattr(goals, name)) for name in ("sqnr_db", "equal")}
    most = {"max_abs_rms": (defaults.max_abs_rms, goals.max_abs_rms)}
    chosen = {
        **{name: (min, pair) for name, pair in least.items()},
        **{name: (max, pair) for name, pair in most.items()},
    }
    return {name: float(looser(pair)) for name, (looser, pair) in chosen.items() if None not in pair}


def sample_files(job: JobContext) -> list[str]:
    """The samples, for a package with a self-test."""
    return [job.file("self_test.npz")] if job.export.test is not None and not export_request(job).why_not else []


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
            "Samples that the package tests itself by, and what is expected of them.",
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
