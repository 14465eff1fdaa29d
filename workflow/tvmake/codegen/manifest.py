"""mod.json: the model, the options, the kernels and the provenance of a build."""

import json
from importlib import metadata
from pathlib import Path

import tvm

from tvmake import __version__
from tvmake.artifact.manifest import ClmlPart, Component, Coverage, FileEntry, Manifest, Parameter, Unscheduled
from tvmake.artifact.signature import Signature
from tvmake.codegen.kernels import graph, kernels
from tvmake.codegen.lowering import Lowered
from tvmake.codegen.options import PackageOptions
from tvmake.codegen.placement import placement
from tvmake.provenance.statement import RECORDS, statement
from tvmake.quantize.source.rounding import is_source_quantized
from tvmake.storage.files import digest_file
from tvmake.targets.backends import backend_of

COMPONENTS = ("apache-tvm", "apache-tvm-ffi", "numpy")
LIBINFO = ("GIT_COMMIT_HASH", "TVM_VERSION", "LLVM_VERSION", "USE_LLVM", "USE_CUDA", "USE_OPENCL", "USE_CLML")


def package_manifest(
    request: PackageOptions,
    signature: Signature,
    lowered: Lowered,
    covered: Coverage,
    unscheduled: Unscheduled,
    target: "tvm.target.Target",
    files: dict[str, Path],
    network: dict[str, Path],
    best: Path | None,
    compiler: str,
    clml: list[ClmlPart] | None = None,
) -> Manifest:
    """The manifest of a build.

    Args:
        files: mod.so and mod.params as built.
        network: the stage's input files.
        best: the applied records, if any.
        clml: CLML's parts; None for targets without CLML.
    """
    nodes = graph(lowered.fused)
    functions = kernels(lowered.fused, nodes, lowered.tuned, lowered.ruled)
    entries = {name: FileEntry(sha256=digest_file(file), size=file.stat().st_size) for name, file in files.items()}
    components = [Component(name="tvmake", version=__version__)]
    components += [Component(name=name, version=metadata.version(name)) for name in COMPONENTS]
    components.append(Component(name="llvm", version=str(tvm.target.codegen.llvm_version_major())))
    components.append(Component(name="linker", version=compiler))
    options = request.model_dump(mode="json", exclude_defaults=True)
    digests = {name: digest_file(file) for name, file in network.items()}
    records = digest_file(best) if best else None
    inputs = digests | ({RECORDS: records} if records else {})
    attributes = json.loads(str(target))
    provenance = statement(options, entries, inputs, components, __version__)
    return Manifest(
        model=request.model,
        precision=request.precision,
        target_name=request.target_name,
        network=digests,
        signature=signature,
        parameters=_parameters(lowered.fused, len(signature.inputs)),
        target=attributes,
        build=options,
        libinfo={key: str(value) for key, value in sorted(tvm.support.libinfo().items()) if key in LIBINFO},
        records_sha256=records,
        coverage=covered,
        unscheduled=unscheduled,
        placement=placement(lowered.fused, attributes) if backend_of(target).has_textures else None,
        clml=clml,
        kernels=functions,
        graph=nodes,
        files=entries,
        components=components,
        provenance=provenance.model_dump(mode="json", exclude_none=True),
        is_source_quantized=is_source_quantized(lowered.fused),
    ).sealed()


def _parameters(module: "tvm.IRModule", inputs: int) -> list[Parameter]:
    return [
        Parameter(name=str(var.name), shape=tuple(int(dim) for dim in var.ty.shape), dtype=str(var.ty.dtype))
        for var in module["main"].params[inputs:]
    ]
