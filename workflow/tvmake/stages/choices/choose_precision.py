"""Choose precision: measure gain and cost of each layer in each precision, and choose the fastest assignment that meets the goals."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact import paths
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.config.target import obstacle
from tvmake.quantize.precision import USUAL_CHOICE
from tvmake.stages.descriptor import LOCK, Input, Log, Output, Stage
from tvmake.stages.package.build import build_request
from tvmake.stages.results.validate import metric_files
from tvmake.stages.user_files import user_files
from tvmake.storage.temporary import resumable_directory, temporary_directory
from tvmake.transform.options import BUILD_POINTS, TRANSFORM_POINTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tvmake.benchmark.precision_choice import PrecisionChoice
    from tvmake.stages.context import JobContext


def choose_precision(
    imported: Path,
    imported_params: Path,
    imported_signature: Path,
    reference: Path,
    request: ChoosePrecisionRequest,
    module: Path,
    params: Path,
    signature: Path,
    precision: Path,
    calibration: Path | None = None,
    frozen: Path | None = None,
    variant: str = "",
) -> PrecisionChoice:
    """Choose precisions; write the network with them to ``module``, ``params`` and ``signature``, and the choice to ``precision`` (a
    PrecisionChoice).

    If no assignment meets the goals, the stage takes the nearest one, and validation reports the missed goals. A run after an
    interrupted one with the same files and request resumes with its measurements.

    Args:
        calibration: the ranges of activations; None if nothing may be ``int8``.
        frozen: a lock with the assignment; nothing is measured then.
        variant: variant in the lock, as ``model/precision/target``.

    Raises:
        InputError: the target or a user pass is wrong, or the stage's files are damaged.
        DeviceError: the device is lost, or no candidate runs.
        MachineError: the linker is missing or fails.
    """
    from tvmake.artifact import stage_json
    from tvmake.records.frozen import read_frozen
    from tvmake.stages.choices.precision_search.kept import Kept, choices_root
    from tvmake.stages.choices.precision_search.search import chosen_by_lock, search
    from tvmake.stages.choices.precision_search.trials import Workbench

    inputs = (imported, imported_params, imported_signature, calibration, reference)
    with temporary_directory("tvmake-precisions-") as directory, ExitStack() as until_saved:
        kept_in = directory
        if frozen is None:
            kept_in = until_saved.enter_context(resumable_directory(choices_root(), _key(inputs, request)))
        kept = Kept(kept_in)
        if kept.count:
            print(f"resuming an interrupted run with {kept.count} of its builds and measurements")
        bench = Workbench(directory, kept, *inputs, request)
        if frozen is not None:
            choice = chosen_by_lock(bench, request, read_frozen(frozen).assignment_of(variant, frozen))
        else:
            choice = search(bench, request)
        bench.write_network(choice.assignment, module, params, signature)
        stage_json.save(choice, precision)
    return choice


def _key(inputs: Sequence[Path | None], request: ChoosePrecisionRequest) -> str:
    """The key of this choice's measurements, on this device in its current state."""
    from tvmake.device.connect import connect
    from tvmake.stages.choices.precision_search.kept import key_of
    from tvmake.storage.code_fingerprint import fingerprint
    from tvmake.targets.backends import device_kind
    from tvmake.targets.resolve import tvm_target

    building = request.build
    kind = device_kind(tvm_target(building.target, f"targets.{building.target_name}"))
    device = connect(request.device_name, request.device).fingerprint(kind)
    return key_of(request, inputs, fingerprint(*STAGE.roots(request)), device)


def choose_precision_request(job: JobContext) -> ChoosePrecisionRequest:
    """The precisions that one variant's layers may have, and how they are measured."""
    precision = job.precision_config
    target = job.target_fields.get("target")
    among = precision.among or [name for name in USUAL_CHOICE if target is None or obstacle(target, name) is None]
    layout = "keep" if job.transform.layout == "auto" else job.transform.layout
    building = build_request(job)
    return ChoosePrecisionRequest(
        **job.device_fields,
        model=job.model,
        precision=precision,
        among=list(among),
        transform=job.transform.model_copy(update={"passes": job.user_passes(TRANSFORM_POINTS), "layout": layout}),
        dims=job.model_config.dims,
        build=building.model_copy(
            update={"require_coverage": None, "build": building.build.model_copy(update={"dump": []})}
        ),
        goals=job.goals.numeric.model_copy(update={"package_mb": job.goals.package_mb}),
        cooldown_s=job.benchmark.measurement().cooldown_s,
    )


def _lines(choice: PrecisionChoice) -> Iterator[str]:
    yield f"precision: {choice.summary}"
    yield from (f"warning: precision: {warning}" for warning in choice.warnings)


def _files(arguments: Mapping[str, Any]) -> list[Path]:
    """The user's passes and metrics."""
    request: ChoosePrecisionRequest = arguments["request"]
    return user_files(passes=[*request.transform.passes, *request.build.passes], goals=request.goals)


STAGE = Stage(
    name="choose_precision",
    summary="Choose the fastest assignment of precisions to layers that meets the goals.",
    function=choose_precision,
    inputs=(
        Input("model.json", "imported"),
        Input("model.params", "imported_params"),
        Input("signature.json", "imported_signature"),
        Input("reference.npz", "reference"),
        Input(files=lambda job: [*job.pass_files((*TRANSFORM_POINTS, *BUILD_POINTS)), *metric_files(job)]),
        LOCK,
        Input(
            "calibration.json",
            "calibration",
            lambda job: [job.file("calibration.json")] if job.precision_config.is_calibrated else [],
            "Ranges of activations, for int8.",
            is_optional=True,
        ),
    ),
    outputs=(
        Output("assigned/module.json", paths.ASSIGNED, "module", "The chosen network's Relax module to write (JSON)."),
        Output("assigned/module.params", paths.ASSIGNED, "params", "Its parameters to write."),
        Output("assigned/signature.json", paths.ASSIGNED, "signature", "Its signature to write (JSON)."),
        Output(
            "precision.json", paths.VARIANT, "precision", "The choice and its figures to write (JSON).", is_locked=False
        ),
    ),
    logs=(Log("{model}/{precision}/{target}/choose_precision.log"),),
    request_model=ChoosePrecisionRequest,
    request=choose_precision_request,
    exists=lambda job: job.chooses_precision,
    subject=lambda arguments: "{0.model}/{0.precision}/{0.target_name}".format(arguments["request"].build),
    report=_lines,
    reads=_files,
    is_goal=True,
    is_hermetic=True,
    memory_mb=3000,
    minutes=120,
    is_on_device=True,
    is_timing=True,
    is_alone=True,
)
