"""Whether a device can run what was compiled for a target, by the device's own report."""

from collections.abc import Mapping
from typing import Any

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest
from tvmake.device.architecture import check_triple
from tvmake.errors import DeviceError

FLOAT16 = "float16"
IMAGES = "images"
"""What tvmake's OpenCL runtime reports (``tvmake.opencl.limits``): ``yes`` or ``no``; ``width x height x layers`` or
``none``. Devices reached otherwise report none, and refuse kernels by themselves."""

REPORT = "tvmake.opencl.limits"


def read_report(text: str) -> dict[str, str]:
    """The runtime's report, a line each, by name."""
    return dict(line.split("=", 1) for line in text.splitlines())


def check_package(fingerprint: Fingerprint, manifest: Manifest) -> None:
    """Refuse a package that the device cannot run.

    Raises:
        DeviceError: as :func:`check_limits`.
    """
    uses_float16 = any(
        dtype == FLOAT16
        for dtype in (
            *(one.dtype for one in manifest.parameters),
            *(one.dtype for one in manifest.graph),
            *(one.dtype for one in (*manifest.signature.inputs, *manifest.signature.outputs)),
        )
    )
    check_limits(fingerprint, manifest.target, uses_float16, manifest.target_name)


def check_limits(fingerprint: Fingerprint, target: Mapping[str, Any], uses_float16: bool, target_name: str) -> None:
    """Refuse kernels that the device cannot run.

    Args:
        fingerprint: what the device reports.
        target: TVM's attributes that they were compiled with.

    Raises:
        DeviceError: it has another processor, does not compute in float16, or has no images, or smaller ones than the
            target says.
    """
    where, name = f"targets.{target_name}", fingerprint.details.get("gpu", fingerprint.soc)
    host = target.get("host") or target
    check_triple(str(host.get("mtriple", "")), fingerprint.details.get("machine", ""), where)
    if uses_float16 and fingerprint.details.get(FLOAT16) == "no":
        raise DeviceError(
            where,
            f"the device '{name}' does not compute in float16 (no cl_khr_fp16)",
            "leave float16 out for this target: variants.exclude, or models.NAME.precisions",
        )
    images = fingerprint.details.get(IMAGES)
    if "texture" not in target.get("keys", ()) or images is None:
        return
    if images == "none":
        raise DeviceError(
            where,
            f"the device '{name}' has no images that textures could be kept in",
            "compile for buffers: a '-buffer' target, or leave out the key 'texture'",
        )
    width, height, layers = (int(extent) for extent in images.split(" x "))
    for attribute, has in (("texture_spatial_limit", min(width, height)), ("texture_depth_limit", layers)):
        wants = int(target.get(attribute, 0))
        if wants > has:
            raise DeviceError(
                where,
                f"textures may have up to {wants} ({attribute}), and images of the device '{name}' {has}",
                f"set {where}.attributes.{attribute} to {has}",
            )
