"""Transform: fold, bind dimensions, change layout and precision, run user passes; independent of the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.user_files import user_files
from tvmake.transform.options import TRANSFORM_POINTS, TransformRequest

if TYPE_CHECKING:
    from tvmake.stages.context import JobContext


def transform_model(
    imported: Path,
    imported_params: Path,
    signature: Path,
    request: TransformRequest,
    module: Path,
    params: Path,
    bound: Path,
    calibration: Path | None = None,
) -> str:
    """Transform an imported model; write ``module``, ``params`` and ``bound`` (its signature with dimensions bound).

    Returns:
        For a quantised source, or a precision with integer weights: what is in integers, what is not,
        and why; else empty.

    Raises:
        InputError: an unknown dimension or operator, a failing user pass, or damaged stage files.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.calibration import Calibration
    from tvmake.artifact.extents import begin_empty
    from tvmake.artifact.module_files import load_module, save_module
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.weights.tensors import load_params, save_changed_params
    from tvmake.quantize.integers.coverage import COVERAGE
    from tvmake.transform.graph import bound_signature, transform

    before = stage_json.load(Signature, signature)
    request = request.model_copy(update={"dims": begin_empty(request.dims, before)})
    ranges = stage_json.load(Calibration, calibration) if calibration else None
    source = load_params(imported_params)
    rewritten, weights = transform(load_module(imported), source, request, ranges)
    save_changed_params(weights, params, imported_params, source)
    save_module(rewritten, module)
    stage_json.save(bound_signature(before, rewritten), bound)
    return str((rewritten.attrs or {}).get(COVERAGE, ""))


def transform_request(job: JobContext) -> TransformRequest:
    """One model at one precision, in its layout or a candidate's."""
    # Without a candidate, this is the network of variants that are not tuned.
    layout = job.layout or ("keep" if job.transform.layout == "auto" else job.transform.layout)
    transform = job.transform.model_copy(update={"passes": job.user_passes(TRANSFORM_POINTS), "layout": layout})
    return TransformRequest(precision=job.precision_config, transform=transform, dims=job.model_config.dims)


STAGE = Stage(
    name="transform",
    summary="Fold, bind dimensions, change layout and precision, run user passes.",
    function=transform_model,
    inputs=(
        Input("model.json", "imported"),
        Input("model.params", "imported_params"),
        Input("signature.json", "signature"),
        Input(files=lambda job: job.pass_files(TRANSFORM_POINTS)),
        Input(
            "calibration.json",
            "calibration",
            lambda job: [job.file("calibration.json")] if job.precision_config.base == "int8" else [],
            "Ranges of activations, for int8.",
            is_optional=True,
        ),
    ),
    outputs=(
        Output("module.json", paths.TRANSFORMED, "module", "Relax module to write (JSON)."),
        Output("module.params", paths.TRANSFORMED, "params", "Parameters to write."),
        Output(
            "transformed/signature.json",
            paths.TRANSFORMED,
            "bound",
            "Signature with dimensions bound, to write (JSON).",
            has_parts=True,
        ),
        Output("layouts/module.json", paths.CANDIDATE, "module"),
        Output("layouts/module.params", paths.CANDIDATE, "params"),
        Output("layouts/signature.json", paths.CANDIDATE, "bound"),
    ),
    logs=(
        Log("{model}/{precision}/transform.log"),
        Log("{model}/{precision}/layouts/{layout}/transform.log"),
    ),
    request_model=TransformRequest,
    request=transform_request,
    exists=lambda job: not job.chooses_precision and job.chooses_layout == bool(job.layout),
    rules=("transform", "transform_candidate"),
    report=lambda coverage: (
        (f"warning: {coverage}" if "; kept in float: " in coverage or ": none are " in coverage else coverage,)
        if coverage
        else ()
    ),
    reads=lambda arguments: user_files(passes=arguments["request"].transform.passes),
    is_hermetic=True,
    recipe=Recipe(user_passes=lambda request: request.transform.passes),
    memory_mb=1500,
    preload=("tvmake.artifact.module_files", "tvmake.artifact.weights.tensors", "tvmake.transform.graph"),
)
