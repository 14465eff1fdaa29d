"""Build: lower a transformed module for a target, generate and link its code, and describe the result."""

import shutil
from functools import partial
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import atomic_path
from tvmake.artifact.module_files import load_module, load_params, save_params
from tvmake.artifact.package import LIBRARY, WEIGHTS
from tvmake.artifact.signature import Signature
from tvmake.build.apply import apply_best
from tvmake.build.clml_offload import asks_for_clml, clml_offload
from tvmake.build.codeless import without_code
from tvmake.build.coverage import coverage, require
from tvmake.build.describe import describe
from tvmake.build.link import generate, link
from tvmake.build.sources import dump_sources
from tvmake.build.weights import packed_weights
from tvmake.config.requests.building import BuildRequest
from tvmake.errors import InputError
from tvmake.target.pipeline import lower
from tvmake.target.resolve import check_library, linker, linker_identity, tvm_target
from tvmake.tune.best import BestSet


def build(
    module: Path,
    params: Path,
    signature: Path,
    request: BuildRequest,
    lib: Path,
    manifest: Path,
    weights: Path,
    sources: Path,
    best: Path | None = None,
) -> None:
    """Write mod.so, mod.json, mod.params and the directory of generated sources.

    The same inputs give the same bytes, in any directory and process.

    Args:
        best: the tuning records to schedule kernels with (a ``BestSet``); None builds without.

    Raises:
        InputError: the target or a user pass is wrong, TVM cannot generate code for the model on it, or the records
            cover less than the request demands.
        MachineError: the linker is missing or fails.
    """
    where = f"targets.{request.target_name}"
    compiler = linker(request.target, where)
    target = tvm_target(request.target, where)
    bound = stage_json.load(Signature, signature)
    inputs = len(bound.inputs)
    records = stage_json.load(BestSet, best) if best else None
    loaded = load_module(module)
    offloaded = clml_offload(loaded, load_params(params)) if asks_for_clml(target) else None
    loaded = offloaded.module if offloaded else loaded
    refused: dict[str, str] = {}
    while True:
        lowered = lower(
            loaded,
            target,
            request.passes,
            request.build.opt_level,
            inputs,
            partial(apply_best, target=target, best=records, refused=refused) if records else None,
            request.build.cuda_graph,
        )
        covered = coverage(lowered, target, records)
        require(request.require_coverage, covered, f"{request.model}/{request.precision}/{request.target_name}")
        try:
            executable = generate(lowered.final, target, request.build.exec_mode, request.build.opt_level, where)
            break
        except InputError:
            # A record that has no code costs its kernel the schedule, not the build.
            found = without_code(lowered, target)
            if not found:
                raise
            refused |= found
    link(executable, compiler, lib)
    check_library(lib, request.target, where)
    if lowered.packings:
        names = [str(parameter.name) for parameter in lowered.fused["main"].params[inputs:]]
        save_params(packed_weights(load_params(params), lowered.packings, names), weights)
    else:
        with atomic_path(weights) as temporary:
            shutil.copyfile(params, temporary)
    reports = offloaded.files() if offloaded else {}
    dump_sources(request.build.dump, lowered, executable, sources, reports)
    described = describe(
        request,
        signature=bound,
        lowered=lowered,
        covered=covered,
        target=target,
        files={LIBRARY: lib, WEIGHTS: weights},
        network={"module.json": module, "module.params": params, "signature.json": signature},
        best=best,
        compiler=linker_identity(compiler),
    )
    stage_json.save(described, manifest)
