"""Build: lower a transformed module for a target, generate and link its code, and describe the result."""

import shutil
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import atomic_path
from tvmake.artifact.module_files import load_module
from tvmake.artifact.package import LIBRARY, WEIGHTS
from tvmake.artifact.signature import Signature
from tvmake.artifact.source import SourceRecord
from tvmake.build.describe import describe
from tvmake.build.link import generate, link
from tvmake.build.sources import dump_sources
from tvmake.config.requests.building import BuildRequest
from tvmake.target.pipeline import lower
from tvmake.target.resolve import linker, linker_identity, tvm_target


def build(
    module: Path,
    params: Path,
    signature: Path,
    source: Path,
    request: BuildRequest,
    lib: Path,
    manifest: Path,
    weights: Path,
    sources: Path,
) -> None:
    """Write mod.so, mod.json, mod.params and the directory of generated sources.

    The same inputs give the same bytes, in any directory and process.

    Raises:
        InputError: the target or a user pass is wrong, or TVM cannot generate code for the model on it.
        MachineError: the linker is missing or fails.
    """
    where = f"targets.{request.target_name}"
    compiler = linker(request.target, where)
    target = tvm_target(request.target, where)
    transformed = load_module(module)
    lowered = lower(transformed, target, request.passes, request.build.opt_level)
    executable = generate(lowered.final, target, request.build.exec_mode, request.build.opt_level, where)
    link(executable, compiler, lib)
    with atomic_path(weights) as temporary:
        shutil.copyfile(params, temporary)
    dump_sources(request.build.dump, lowered, executable, sources)
    described = describe(
        request,
        source=stage_json.load(SourceRecord, source).model_dump(mode="json"),
        signature=stage_json.load(Signature, signature),
        module=transformed,
        lowered=lowered,
        target=target,
        files={LIBRARY: lib, WEIGHTS: weights},
        inputs={"module.json": module, "module.params": params},
        compiler=linker_identity(compiler),
    )
    stage_json.save(described, manifest)
