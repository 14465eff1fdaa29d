"""Compare operators: the noise of each operator of a package's network, relative to the original network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.requests.building import BuildRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage, network_input
from tvmake.stages.package.build import build_request
from tvmake.stages.user_files import user_files
from tvmake.transform.options import BUILD_POINTS

if TYPE_CHECKING:
    from tvmake.stages.context import JobContext


def compare_operators(
    imported: Path,
    weights: Path,
    module: Path,
    params: Path,
    signature: Path,
    reference: Path,
    request: BuildRequest,
    errors: Path,
    best: Path | None = None,
) -> list[str]:
    """Write the noise of each operator, for the first sample of the reference.

    Plain loops on one core of this machine compute all values, which takes about 50 times the package's time.

    Returns:
        A line for the log if there is no result.

    Raises:
        InputError: a file is damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.module_files import load_module
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.weights.tensors import load_params
    from tvmake.debug.operator_errors import operator_errors
    from tvmake.records.best import BestSet
    from tvmake.validate.reference.stored import ReferenceSet

    sample = next(iter(ReferenceSet(reference)))
    found = operator_errors(
        load_module(imported),
        load_params(weights),
        load_module(module),
        load_params(params),
        stage_json.load(Signature, signature),
        sample.inputs,
        request,
        stage_json.load(BestSet, best) if best else None,
    )
    stage_json.save(found, errors)
    return [f"no operators are compared: {found.why_not}"] if found.why_not else []


def compare_request(job: JobContext) -> BuildRequest:
    """The build of one variant, without what changes no operator."""
    request = build_request(job)
    build = request.build.model_copy(update={"dump": []})
    return request.model_copy(update={"build": build, "require_coverage": None})


STAGE = Stage(
    name="compare_operators",
    summary="Compare the result of each operator of a package with the original network's.",
    function=compare_operators,
    inputs=(
        Input("model.json", "imported"),
        Input("model.params", "weights"),
        network_input("module.json", "module"),
        network_input("module.params", "params"),
        network_input("signature.json", "signature"),
        Input("reference.npz", "reference"),
        Input(files=lambda job: job.pass_files(BUILD_POINTS)),
        Input(
            "best.json",
            "best",
            lambda job: [job.file("best.json")] if job.is_tuned else [],
            "Records to build with.",
            is_optional=True,
        ),
    ),
    outputs=(Output("operator_errors.json", paths.VARIANT, "errors", "Noise of each operator to write (JSON)."),),
    logs=(Log("{model}/{precision}/{target}/compare_operators.log"),),
    request_model=BuildRequest,
    request=compare_request,
    exists=lambda job: job.validation.operators,
    subject=lambda arguments: "{0.model}/{0.precision}/{0.target_name}".format(arguments["request"]),
    report=lambda lines: lines,
    reads=lambda arguments: user_files(passes=arguments["request"].passes),
    memory_mb=2000,
    minutes=60,
)
