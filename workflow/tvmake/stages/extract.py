"""Extract: name the kernels of a variant and say which of them are worth tuning."""

from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import atomic_directory
from tvmake.artifact.module_files import load_module, save_module
from tvmake.artifact.signature import Signature
from tvmake.artifact.tasks import Task, TaskList
from tvmake.config.requests.tuning import ExtractRequest
from tvmake.target.pipeline import fused_module, packs_weights
from tvmake.target.resolve import tvm_target
from tvmake.tune.extract import extract as kernels
from tvmake.tune.workload import GENERATION, Workload, target_identity


def extract(module: Path, signature: Path, request: ExtractRequest, tasks: Path, workloads: Path) -> TaskList:
    """Write ``tasks`` (a TaskList, the heaviest kernel first) and ``workloads``, a directory with each kernel to tune as ``<key>.json``.

    Raises:
        InputError: the target or a user pass is wrong, or the stage's files are damaged.
    """
    found, to_tune = kernels_of(module, signature, request)
    target = tvm_target(request.target, f"targets.{request.target_name}")
    with atomic_directory(workloads) as directory:
        for one in to_tune:
            save_module(one.module, directory / f"{one.key}.json")
    listed = TaskList(target=target_identity(target), generation=GENERATION, tasks=found)
    stage_json.save(listed, tasks)
    return listed


def kernels_of(module: Path, signature: Path, request: ExtractRequest) -> tuple[list[Task], list[Workload]]:
    """The kernels of a transformed network, the heaviest first, and the workloads of those worth tuning.

    Raises:
        InputError: the target or a user pass is wrong, or the stage's files are damaged.
    """
    target = tvm_target(request.target, f"targets.{request.target_name}")
    inputs = len(stage_json.load(Signature, signature).inputs)
    fused = fused_module(
        load_module(module), target, request.passes, request.opt_level, inputs, layout_free=packs_weights(target)
    )
    return kernels(fused, target)
