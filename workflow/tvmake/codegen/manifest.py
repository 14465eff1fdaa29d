"""mod.json: the model, the options, the kernels and the provenance of a build."""

import json
import math
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import tvm

from tvmake import __version__
from tvmake.artifact.manifest import (
    ClmlPart,
    Component,
    Coverage,
    FileEntry,
    Manifest,
    PackageFunction,
    Parameter,
    Placement,
    Unscheduled,
)
from tvmake.artifact.signature import Signature
from tvmake.codegen.kernels import graph, kernels
from tvmake.codegen.lowering import Lowered
from tvmake.codegen.options import PackageOptions
from tvmake.ir.expressions import bindings
from tvmake.provenance.statement import RECORDS, statement
from tvmake.quantize.source.rounding import is_source_quantized
from tvmake.storage.files import digest_file
from tvmake.targets.adreno_texture.images import could_be_image, image, images, largest
from tvmake.targets.adreno_texture.kernel_scopes import scope_of
from tvmake.targets.backends import backend_of
from tvmake.targets.kernels.memory import GLOBAL

COMPONENTS = ("apache-tvm", "apache-tvm-ffi", "numpy")
LIBINFO = ("GIT_COMMIT_HASH", "TVM_VERSION", "LLVM_VERSION", "USE_LLVM", "USE_CUDA", "USE_OPENCL", "USE_CLML")


def package_manifest(
    request: PackageOptions,
    signature: Signature,
    lowered: Lowered,
    covered: Coverage,
    unscheduled: Unscheduled,
    target: "tvm.target.Target",
    files: dict[str, FileEntry],
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
    components = [Component(name="tvmake", version=__version__)]
    components += [Component(name=name, version=metadata.version(name)) for name in COMPONENTS]
    components.append(Component(name="llvm", version=str(tvm.target.codegen.llvm_version_major())))
    components.append(Component(name="linker", version=compiler))
    options = request.model_dump(mode="json", exclude_defaults=True)
    digests = {name: digest_file(file) for name, file in network.items()}
    records = digest_file(best) if best else None
    inputs = digests | ({RECORDS: records} if records else {})
    attributes = json.loads(str(target))
    provenance = statement(options, files, inputs, components, __version__)
    return Manifest(
        model=request.model,
        precision=request.precision,
        target_name=request.target_name,
        network=digests,
        signature=_with_shapes(signature, lowered),
        parameters=_parameters(lowered.fused, len(signature.arguments)),
        target=attributes,
        build=options,
        libinfo={key: str(value) for key, value in sorted(tvm.support.libinfo().items()) if key in LIBINFO},
        records_sha256=records,
        coverage=covered,
        unscheduled=unscheduled,
        placement=placement(lowered.fused, attributes, lowered.functions or ["main"])
        if backend_of(target).has_textures
        else None,
        clml=clml,
        kernels=kernels(lowered.fused, lowered.tuned, lowered.ruled),
        graph=graph(lowered.fused, lowered.functions or ["main"]),
        functions=_functions(lowered),
        why_refused=lowered.why_refused,
        files=files,
        components=components,
        provenance=provenance.model_dump(mode="json", exclude_none=True),
        is_source_quantized=is_source_quantized(lowered.fused),
    ).sealed()


def _functions(lowered: Lowered) -> list[PackageFunction]:
    names = {str(variable.name_hint) for variable in lowered.fused.get_global_vars()}
    return [
        PackageFunction(
            name=name,
            sizes=dict(sizes),
            kernels=sorted({node.call for node in graph(lowered.fused, [name])} & names),
            rows=lowered.row_ranges.get(name),
        )
        for name, sizes in lowered.functions.items()
    ]


def _with_shapes(signature: Signature, lowered: Lowered) -> Signature:
    """The signature with the only shapes of a package, if none of its functions takes other sizes.

    A dimension whose rows are computed for any number has a smallest size instead: there is no padding for no rows.
    """
    shapes = [dict(sizes) for sizes in lowered.functions.values()]
    if not all(shapes):
        return signature
    names = {rows.dimension for rows in lowered.row_ranges.values()}
    bounds = {name: signature.bounds.get(name, (1, None)) for name in names}
    others = [{name: size for name, size in shape.items() if name not in names} for shape in shapes]
    distinct = [shape for number, shape in enumerate(others) if shape and shape not in others[:number]]
    return signature.model_copy(
        update={
            "shapes": distinct,
            "bounds": signature.bounds | {name: (max(least, 1), most) for name, (least, most) in bounds.items()},
        }
    )


def _parameters(module: "tvm.IRModule", inputs: int) -> list[Parameter]:
    return [
        Parameter(name=str(var.name), shape=tuple(int(dim) for dim in var.ty.shape), dtype=str(var.ty.dtype))
        for var in module["main"].params[inputs:]
    ]


NOT_IN_BLOCKS = "no value of it is in blocks of four channels"
TOO_LARGE = "its image would have {0.width} x {0.height} pixels and {0.layers} layers, more than the target allows"
NEIGHBOURS = "its values go to or come from kernels that work on buffers"


def placement(fused: "tvm.IRModule", target: Mapping[str, Any], functions: Iterable[str] = ("main",)) -> Placement:
    """Which kernels and values of a module for textures are in images.

    Args:
        target: TVM's attributes, with the limits of images.
        functions: the functions of the network's operators.
    """
    in_images, in_buffers = {}, {}
    for variable, function in fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            name, kernel_images = str(variable.name_hint), images(function)
            if kernel_images:
                in_images[name] = largest(kernel_images)
            else:
                in_buffers[name] = _why(function, target)
    sizes = {True: 0, False: 0}
    for ty in (ty for name in functions for ty in _values(fused[name])):
        sizes[scope_of(ty) != GLOBAL] += _bytes(ty)
    return Placement(
        image_kernels=len(in_images),
        buffer_kernels=len(in_buffers),
        image_bytes=sizes[True],
        buffer_bytes=sizes[False],
        largest_image=largest(list(in_images.values())),
        in_buffers=dict(sorted(in_buffers.items())),
    )


def _why(function: "tvm.tirx.PrimFunc", target: Mapping[str, Any]) -> str:
    blocks = [parameter for parameter in function.params if could_be_image(parameter)]
    if not blocks:
        return NOT_IN_BLOCKS
    spatial = int(target.get("texture_spatial_limit", 0)) or math.inf
    depth = int(target.get("texture_depth_limit", 0)) or math.inf
    for parameter in blocks:
        candidate = image("global.texture", [int(extent) for extent in parameter.ty.shape])
        if max(candidate.width, candidate.height) > spatial or candidate.layers > depth:
            return TOO_LARGE.format(candidate)
    return NEIGHBOURS


def _values(function: "tvm.relax.Function") -> list[Any]:
    """The types of all argument and result tensors."""
    kernel_images = [variable.ty for variable in (*function.params, *(binding.var for binding in bindings(function)))]
    return [ty for ty in kernel_images if isinstance(ty, tvm.relax.TensorType) and ty.shape is not None]


def _bytes(ty: Any) -> int:
    return math.prod(int(extent) for extent in ty.shape) * (tvm.DataType(str(ty.dtype)).bits + 7) // 8
