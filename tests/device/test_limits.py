"""What a device reports of itself decides what it is given."""

import platform
from pathlib import Path

import pytest

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.device.architecture import REMEDY
from tvmake.device.fingerprint import local_fingerprint
from tvmake.device.limits import check_limits, read_report
from tvmake.errors import DeviceError

TEXTURES = {"keys": ["adreno", "texture"], "texture_spatial_limit": 16384, "texture_depth_limit": 2048}


def fingerprint(report: str = "float16=yes\nimages=16384 x 16384 x 2048", machine: str = "aarch64") -> Fingerprint:
    details = {"machine": machine, "gpu": "Chip", **read_report(report)}
    return Fingerprint(kind="opencl", soc="soc", cores=1, memory_bytes=1, os="os", runtime="r", details=details)


LARGEST = (196, 12544, 300)


def refusal(told: Fingerprint, target: dict, uses_float16: bool = False, images=LARGEST) -> list[str]:
    with pytest.raises(DeviceError) as caught:
        check_limits(told, target, uses_float16, "phone", images)
    return [line.strip() for line in str(caught.value).splitlines()]


def test_what_fits_is_let_through():
    check_limits(fingerprint(), {**TEXTURES, "host": {"mtriple": "aarch64-linux-android"}}, True, "phone", LARGEST)
    check_limits(fingerprint("float16=no\nimages=none"), {"keys": ["opencl"]}, False, "phone", None)
    check_limits(fingerprint("images=none"), TEXTURES, False, "phone", (0, 0, 0))
    check_limits(fingerprint("images=12544 x 12544 x 300"), TEXTURES, False, "phone", LARGEST)


def test_a_device_that_reports_nothing_is_tried():
    check_limits(fingerprint("", machine=""), {**TEXTURES, "mtriple": "aarch64-linux-gnu"}, True, "phone", LARGEST)


def test_float16_is_refused_by_a_device_that_does_not_compute_in_it():
    assert refusal(fingerprint("float16=no\nimages=none"), {"keys": ["opencl"]}, uses_float16=True) == [
        "targets.phone: the device 'Chip' does not compute in float16 (no cl_khr_fp16)",
        "leave float16 out for this target: variants.exclude, or models.NAME.precisions",
    ]


def test_textures_are_refused_by_a_device_without_images():
    assert refusal(fingerprint("images=none"), TEXTURES) == [
        "targets.phone: the device 'Chip' has no images for textures",
        "compile for buffers: a '-buffer' target, or leave out the key 'texture'",
    ]


@pytest.mark.parametrize(
    ("images", "attribute", "wants", "has"),
    [
        ("8192 x 16384 x 2048", "texture_spatial_limit", 12544, 8192),
        ("16384 x 8192 x 2048", "texture_spatial_limit", 12544, 8192),
        ("16384 x 16384 x 256", "texture_depth_limit", 300, 256),
    ],
)
def test_textures_are_refused_by_a_device_with_smaller_images(images: str, attribute: str, wants: int, has: int):
    assert refusal(fingerprint(f"images={images}"), TEXTURES) == [
        f"targets.phone: a texture has a dimension of {wants}, and images of the device 'Chip' up to {has}",
        f"set targets.phone.attributes.{attribute} to {has}",
    ]


@pytest.mark.parametrize("target", [{"mtriple": "x86_64-linux-gnu"}, {"host": {"mtriple": "x86_64-linux-gnu"}}])
def test_a_target_for_another_processor_is_refused(target: dict):
    assert refusal(fingerprint(), target) == [
        "targets.phone: it is for x86-64, and its device is aarch64 (uname -m: aarch64)",
        REMEDY,
    ]


def test_this_machine_tells_its_processor():
    assert local_fingerprint(None).details["machine"] == platform.machine()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the target is for another processor")
def test_nothing_is_searched_for_on_a_device_that_cannot_run_it(tmp_path: Path):
    from tests.tune.search.test_search import matmul
    from tvmake.artifact.module_files import save_module
    from tvmake.config.requests.tuning import TuneRequest
    from tvmake.config.target import TargetConfig
    from tvmake.stages.tuning.tune import tune

    save_module(matmul(16).module, tmp_path / "kernel.json")
    asked = TuneRequest(
        target_name="pi",
        target=TargetConfig(mtriple="aarch64-linux-gnu", mcpu="cortex-a76"),
        store=str(tmp_path / "store"),
    )
    with pytest.raises(DeviceError, match=r"targets\.pi: it is for aarch64, and its device is x86-64"):
        tune(tmp_path / "kernel.json", "matmul", 4, asked, tmp_path / "receipt.json", tmp_path / "events.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["kernel.json"]
