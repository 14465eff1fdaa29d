"""Build: lower a transformed module for a target, generate and link its code, and describe the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.building import BuildRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage, network_input
from tvmake.stages.user_files import user_files
from tvmake.transform.options import BUILD_POINTS

if TYPE_CHECKING:
    import tvm

    from tvmake.stages.context import JobContext
    from tvmake.targets.adreno_clml.report import Offloaded


def build(
    module: Path,
    params: Path,
    signature: Path,
    request: BuildRequest,
    lib: Path,
    manifest: Path,
    packing: Path,
    sources: Path,
    best: Path | None = None,
    layout: Path | None = None,
    layout_params: Path | None = None,
) -> list[str]:
    """Write mod.so, mod.json, packing.json and the directory of generated sources.

    The export writes mod.params into the package: packed weights are as large as the network's, and nothing else needs them.
    The same inputs give the same bytes in any directory and process.

    Args:
        best: the tuning records to schedule kernels with (a ``BestSet``); None builds without records.
        layout: the mod.json of a package over the same weights, whose layout of them this one follows.
        layout_params: the parameters of that package's network.

    Returns:
        Lines for the log: kernels without a schedule, and the times of passes if ``dump`` requests them.

    Raises:
        InputError: the target or a user pass is invalid, TVM cannot generate code for the model on it, or the records
            cover less than the request demands.
        MachineError: the linker is missing or fails.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.manifest import FileEntry
    from tvmake.artifact.module_files import load_module
    from tvmake.artifact.package import LIBRARY, WEIGHTS, load_manifest
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.weights.packed_widths import read_widths
    from tvmake.artifact.weights.packings import WeightPackings
    from tvmake.codegen.caches.in_place import write_caches_in_place
    from tvmake.codegen.cuda_graphs import graph_obstacle
    from tvmake.codegen.generating import lower_and_generate
    from tvmake.codegen.link import link
    from tvmake.codegen.manifest import package_manifest
    from tvmake.codegen.passes import PassRecord, PassTimes
    from tvmake.codegen.scheduling.coverage import coverage, require
    from tvmake.codegen.scheduling.unscheduled import unscheduled
    from tvmake.codegen.sources import dump_sources
    from tvmake.codegen.weights import describe_packings
    from tvmake.ir.bounds import bounds_of
    from tvmake.records.best import BestSet
    from tvmake.report.unscheduled import is_alarming, unscheduled_headline, unscheduled_lines
    from tvmake.stages.package.weights import describe_weights
    from tvmake.storage.files import digest_file
    from tvmake.targets.backends import backend_of
    from tvmake.targets.resolve import check_library, link_options, linker, linker_identity, tvm_target

    where = f"targets.{request.target_name}"
    compiler = linker(request.target, where)
    target = tvm_target(request.target, where)
    bound = stage_json.load(Signature, signature)
    records = stage_json.load(BestSet, best) if best else None
    owner = load_manifest(layout, str(layout)) if layout else None
    shared = owner.signature if owner else None
    cached = write_caches_in_place(load_module(module), bound, target, shared, request.separate_states)
    loaded, bound = cached.module, cached.signature
    inputs = len(bound.arguments)
    offloaded = _offload(loaded, request, target, inputs) if backend_of(target).offloads_to_clml else None
    record = PassRecord() if "passes" in request.build.dump else None
    times = PassTimes() if "times" in request.build.dump else None
    widths = read_widths(owner, layout_params, params) if owner and layout_params else {}
    lowered, executable = lower_and_generate(loaded, target, request, inputs, records, record, times, widths)
    covered = coverage(lowered, target, records)
    without_schedule = unscheduled(lowered, target, has_rules=request.build.schedule_rules)
    require(request.require_coverage, covered, f"{request.model}/{request.precision}/{request.target_name}")
    link(executable, compiler, lib, link_options(request.target))
    check_library(lib, request.target, where)
    packings = WeightPackings()
    if lowered.packings:
        names = [str(parameter.name) for parameter in lowered.fused["main"].params[inputs:]]
        packings = describe_packings(lowered.packings, names)
    stage_json.save(packings, packing)
    reports = {**(offloaded.files() if offloaded else {}), **(record.texts if record else {})}
    dump_sources(request.build.dump, lowered, executable, sources, reports)
    written = package_manifest(
        request,
        signature=bound,
        lowered=lowered,
        covered=covered,
        unscheduled=without_schedule,
        target=target,
        files={
            LIBRARY: FileEntry(sha256=digest_file(lib), size=lib.stat().st_size),
            WEIGHTS: describe_weights(packing, params),
        },
        network={"module.json": module, "module.params": params, "signature.json": signature},
        best=best,
        compiler=linker_identity(compiler),
        clml=offloaded.parts if offloaded else None,
    )
    stage_json.save(written, manifest)
    warnings = (
        [f"warning: kernels: {unscheduled_headline(without_schedule)}"]
        if is_alarming(without_schedule.time_share)
        else []
    )
    captures = request.build.cuda_graph and backend_of(target).captures_graphs
    if captures and (obstacle := graph_obstacle(loaded, bounds_of(loaded))):
        warnings.append(f"warning: build.cuda_graph: no kernel with a dynamic dimension is captured: {obstacle}")
    warnings += [f"warning: state {name} is copied in each run: {reason}" for name, reason in cached.obstacles.items()]
    return [*warnings, *unscheduled_lines(without_schedule), *(times.lines() if times else ())]


def _offload(module: tvm.IRModule, request: BuildRequest, target: tvm.target.Target, inputs: int) -> Offloaded:
    """What CLML computes, in all functions of the package."""
    from tvmake.codegen.shapes.lowering import bind_shape, functions_of
    from tvmake.targets.adreno_clml.report import clml_offload, join_offloads

    functions = functions_of(module, request.shapes, target) if request.shapes else {"": {}}
    return join_offloads(
        [
            clml_offload(bind_shape(module, shape), inputs, name)
            for name, shape in functions.items()
            if shape or not name
        ]
    )


def build_request(job: JobContext) -> BuildRequest:
    """The build of one variant."""
    return BuildRequest(
        model=job.model,
        precision=job.precision,
        **job.target_fields,
        build=job.build,
        passes=job.user_passes(BUILD_POINTS),
        shapes=job.model_config.shapes,
        separate_states=job.separate_states,
        require_coverage=job.tuning.require_coverage,
    )


STAGE = Stage(
    name="build",
    summary="Lower a module for a target, generate and link its kernels.",
    function=build,
    inputs=(
        network_input("module.json", "module"),
        network_input("module.params", "params"),
        network_input("signature.json", "signature"),
        Input(files=lambda job: job.pass_files(BUILD_POINTS)),
        Input(
            "best.json",
            "best",
            lambda job: [job.file("best.json")] if job.is_tuned else [],
            "Records to build with.",
            is_optional=True,
        ),
        Input(
            "mod.json",
            "layout",
            lambda job: [job.layout_owner.file("mod.json")] if job.layout_owner else [],
            "mod.json of a package over the same weights and states, to follow their layout and sizes.",
            is_optional=True,
        ),
        Input(
            ("module.params", "chosen/module.params", "assigned/module.params"),
            "layout_params",
            lambda job: [job.layout_owner.network_file("module.params")] if job.layout_owner else [],
            "Parameters of that package's network.",
            is_optional=True,
        ),
    ),
    outputs=(
        Output("mod.so", paths.VARIANT, "lib", "mod.so to write."),
        Output("mod.json", paths.VARIANT, "manifest", "mod.json to write.", has_parts=True),
        Output("packing.json", paths.VARIANT, "packing", "packing.json to write: how the export packs the weights."),
        Output("sources", paths.VARIANT, "sources", "Directory of generated sources to write.", is_directory=True),
    ),
    logs=(Log("{model}/{precision}/{target}/build.log"),),
    request_model=BuildRequest,
    request=build_request,
    subject=lambda arguments: "{0.model}/{0.precision}/{0.target_name}".format(arguments["request"]),
    report=lambda lines: lines,
    reads=lambda arguments: user_files(passes=arguments["request"].passes),
    is_hermetic=True,
    recipe=Recipe(
        user_passes=lambda request: request.passes,
        target=lambda request: (request.target_name, request.target),
        is_linked=True,
    ),
    memory_mb=2000,
    minutes=40,
    preload=(
        "tvmake.codegen.scheduling.apply",
        "tvmake.codegen.manifest",
        "tvmake.codegen.link",
        "tvmake.codegen.lowering",
    ),
)
