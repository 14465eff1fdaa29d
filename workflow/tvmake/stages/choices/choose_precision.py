"""Choose precision: measure what each layer of a network gains and costs in each precision, and take the fastest assignment that meets the goals."""

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
    """Write ``module``, ``params`` and ``signature``, the network with the chosen precision in each layer, and ``precision`` (a
    PrecisionChoice).

    Goals that no assignment meets are no failure here: the nearest one is taken, and validation finds what it misses. A run that follows
    one that was interrupted, of the same files with the same request, goes on with what that one found.

    Args:
        calibration: the ranges of activations; None where nothing may be ``int8``.
        frozen: a lock that gives the assignment; nothing is measured then.
        variant: whose assignment to take from the lock, as ``model/precision/target``.

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
        place = directory
        if frozen is None:
            place = until_saved.enter_context(resumable_directory(choices_root(), _key(inputs, request)))
        kept = Kept(place)
        if kept.count:
            print(f"an earlier run was interrupted: going on with {kept.count} of its builds and measurements")
        bench = Workbench(directory, kept, *inputs, request)
        if frozen is not None:
            choice = chosen_by_lock(bench, request, read_frozen(frozen).assignment_of(variant, frozen))
        else:
            choice = search(bench, request)
        bench.write_network(choice.assignment, module, params, signature)
        stage_json.save(choice, precision)
    return choice


def _key(inputs: Sequence[Path | None], request: ChoosePrecisionRequest) -> str:
    """What measurements of this choice, on this device as it is now, are kept under."""
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
    """What one variant's layers are chosen among, and how they are measured."""
    precision = job.precision_config
    target = job.target_fields.get("target")
    among = precision.among or [one for one in USUAL_CHOICE if target is None or obstacle(target, one) is None]
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


def _files(given: Mapping[str, Any]) -> list[Path]:
    """The user's passes and metrics."""
    request: ChoosePrecisionRequest = given["request"]
    return user_files(passes=[*request.transform.passes, *request.build.passes], goals=request.goals)


STAGE = Stage(
    name="choose_precision",
    summary="Take the fastest assignment of precisions to layers that meets the goals.",
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
    logs=(Log("logs/{model}/{precision}/{target}/choose_precision.log"),),
    request_model=ChoosePrecisionRequest,
    request=choose_precision_request,
    exists=lambda job: job.chooses_precision,
    subject=lambda given: "{0.model}/{0.precision}/{0.target_name}".format(given["request"].build),
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
