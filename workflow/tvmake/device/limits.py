"""Whether a device can run code that was compiled for a target, by the device's own report."""

from collections.abc import Mapping
from typing import Any

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest
from tvmake.device.architecture import check_triple
from tvmake.errors import DeviceError

FLOAT16 = "float16"
IMAGES = "images"
"""A key of the OpenCL runtime's report (``tvmake.opencl.limits``): ``yes`` or ``no``; ``width x height x layers`` or
``none``. Other runtimes report nothing, and refuse kernels themselves."""

REPORT = "tvmake.opencl.limits"


def read_report(text: str) -> dict[str, str]:
    """The runtime's report, one line per entry, by name."""
    return dict(line.split("=", 1) for line in text.splitlines())


def check_package(fingerprint: Fingerprint, manifest: Manifest) -> None:
    """Refuse a package that the device cannot run.

    Raises:
        DeviceError: as :func:`check_limits`.
    """
    uses_float16 = any(
        dtype == FLOAT16
        for dtype in (
            *(parameter.dtype for parameter in manifest.parameters),
            *(tensor.dtype for tensor in manifest.graph),
            *(tensor.dtype for tensor in (*manifest.signature.inputs, *manifest.signature.outputs)),
        )
    )
    images = manifest.placement.largest_image if manifest.placement else None
    check_limits(fingerprint, manifest.target, uses_float16, manifest.target_name, images)


def check_limits(
    fingerprint: Fingerprint,
    target: Mapping[str, Any],
    uses_float16: bool,
    target_name: str,
    images: tuple[int, int, int] | None,
) -> None:
    """Refuse kernels that the device cannot run.

    Args:
        fingerprint: the device's report.
        target: the TVM attributes that they were compiled with.
        images: width, height and layers of the largest images in use; zeros without images, None for targets without
            textures.

    Raises:
        DeviceError: it has another processor, does not compute in float16, or its images are missing or too small.
    """
    where, name = f"targets.{target_name}", fingerprint.details.get("gpu", fingerprint.soc)
    host = target.get("host") or target
    check_triple(str(host.get("mtriple", "")), fingerprint.details.get("machine", ""), where)
    if uses_float16 and fingerprint.details.get(FLOAT16) == "no":
        remedy = "leave float16 out for this target: variants.exclude, or models.NAME.precisions"
        raise DeviceError(where, f"the device '{name}' does not compute in float16 (no cl_khr_fp16)", remedy)
    limits = fingerprint.details.get(IMAGES)
    if images is None or not any(images) or limits is None:
        return
    if limits == "none":
        problem = f"the device '{name}' has no images for textures"
        raise DeviceError(where, problem, "compile for buffers: a '-buffer' target, or leave out the key 'texture'")
    width, height, layers = (int(size) for size in limits.split(" x "))
    used = max(images[:2])
    for attribute, uses, has in (
        ("texture_spatial_limit", used, min(width, height)),
        ("texture_depth_limit", images[2], layers),
    ):
        if uses > has:
            problem = f"a texture has a dimension of {uses}, and images of the device '{name}' up to {has}"
            raise DeviceError(where, problem, f"set {where}.attributes.{attribute} to {has}")
