"""Extract: list the kernels of a variant, and which are worth tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.codegen.options import PassOptions
from tvmake.config.requests.tuning import ExtractRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage, network_input
from tvmake.stages.user_files import user_files
from tvmake.transform.options import BUILD_POINTS

if TYPE_CHECKING:
    from tvmake.artifact.tasks import Task, TaskList
    from tvmake.records.workload import Workload
    from tvmake.stages.context import JobContext


def extract(
    module: Path,
    signature: Path,
    request: ExtractRequest,
    tasks: Path,
    workloads: Path,
    first_module: Path | None = None,
    first_signature: Path | None = None,
) -> TaskList:
    """Write ``tasks`` (a TaskList, the most expensive kernel first) and ``workloads``, a directory with each kernel to tune as
    ``<key>.json``.

    Args:
        first_module: the transformed network of the package's first function, if this is another.
        first_signature: that network's signature.

    Raises:
        InputError: the target or a user pass is invalid, or the stage's files are damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.module_files import save_module
    from tvmake.artifact.tasks import TaskList
    from tvmake.records.workload import GENERATION, target_identity
    from tvmake.storage.files import atomic_directory
    from tvmake.targets.resolve import tvm_target

    kernels, to_tune = kernels_of(module, signature, request, first_module, first_signature)
    target = tvm_target(request.target, f"targets.{request.target_name}")
    with atomic_directory(workloads) as directory:
        for workload in to_tune:
            save_module(workload.module, directory / f"{workload.key}.json")
    listed = TaskList(target=target_identity(target), generation=GENERATION, tasks=kernels)
    stage_json.save(listed, tasks)
    return listed


def kernels_of(
    module: Path,
    signature: Path,
    request: ExtractRequest,
    first_module: Path | None = None,
    first_signature: Path | None = None,
) -> tuple[list[Task], list[Workload]]:
    """The kernels of a transformed network, the most expensive first, and the workloads of those worth tuning.

    Args:
        first_module: the transformed network of the package's first function, if this is another.
        first_signature: that network's signature.

    Raises:
        InputError: the target or a user pass is invalid, or the stage's files are damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.module_files import load_module
    from tvmake.artifact.signature import Signature
    from tvmake.codegen.caches.in_place import write_caches_in_place
    from tvmake.codegen.lowering import LoweringOptions, fused_module, packs_weights
    from tvmake.codegen.shapes.lowering import fused_shapes
    from tvmake.codegen.size_points import values_of_shapes
    from tvmake.targets.resolve import tvm_target
    from tvmake.tune.extract import extract as kernels

    target = tvm_target(request.target, f"targets.{request.target_name}")
    first = None
    if first_module and first_signature:  # the build takes the sizes of shared buffers from its package
        loaded = load_module(first_module)
        first = write_caches_in_place(loaded, stage_json.load(Signature, first_signature), target).signature
    own = stage_json.load(Signature, signature)
    cached = write_caches_in_place(load_module(module), own, target, first, request.separate_states)
    network, inputs, packs = cached.module, len(cached.signature.arguments), packs_weights(target)
    if request.shapes:
        fused = fused_shapes(network, LoweringOptions(target, request.passes, request, inputs), request.shapes, packs)
    else:
        fused = fused_module(network, target, request.passes, request, inputs, layout_free=packs)
    return kernels(fused, target, values_of_shapes(request.shapes))


def extract_request(job: JobContext) -> ExtractRequest:
    """The options that determine the variant's kernels."""
    context = {name: getattr(job.build, name) for name in PassOptions.model_fields}
    return ExtractRequest(
        **job.target_fields,
        **context,
        passes=job.user_passes(BUILD_POINTS),
        shapes=job.model_config.shapes,
        separate_states=job.separate_states,
    )


STAGE = Stage(
    name="extract",
    summary="List a variant's kernels and which of them are worth tuning.",
    function=extract,
    inputs=(
        network_input("module.json", "module"),
        network_input("signature.json", "signature"),
        Input(files=lambda job: job.pass_files(BUILD_POINTS)),
        Input(
            ("module.json", "chosen/module.json", "assigned/module.json"),
            "first_module",
            lambda job: [job.layout_owner.network_file("module.json")] if job.layout_owner else [],
            "Module of the package's first function, for the sizes of shared states.",
            is_optional=True,
        ),
        Input(
            ("signature.json", "chosen/signature.json", "assigned/signature.json"),
            "first_signature",
            lambda job: [job.layout_owner.network_file("signature.json")] if job.layout_owner else [],
            "Signature of that module.",
            is_optional=True,
        ),
    ),
    outputs=(
        Output("tasks.json", paths.VARIANT, "tasks", "List of kernels to write (JSON).", has_parts=True),
        Output("workloads", paths.VARIANT, "workloads", "Directory of kernels to write.", is_directory=True),
    ),
    logs=(Log("{model}/{precision}/{target}/extract.log"),),
    request_model=ExtractRequest,
    request=extract_request,
    exists=lambda job: job.is_tuned,
    reads=lambda arguments: user_files(passes=arguments["request"].passes),
    is_hermetic=True,
    recipe=Recipe(
        user_passes=lambda request: request.passes, target=lambda request: (request.target_name, request.target)
    ),
)
