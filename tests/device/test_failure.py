"""What a user reads when a run fails: the telling line, and what to do."""

import re
from pathlib import Path

import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.local.test_local import package, packed  # noqa: F401  # fixtures
from tvmake.artifact.package import MANIFEST, read_manifest, unpack
from tvmake.device.failure import crash_remedy, explain_failure

LAUNCH = (
    "RuntimeError: OpenCL: cannot launch kernel '{kernel}_kernel_1' with 64×1×1 work items in groups of 64×1×1 (64) on "
    "'Chip', which takes groups of up to 32 for this kernel, 256 (256×256×256) at all: CL_OUT_OF_RESOURCES (-5)"
)


@pytest.fixture
def unpacked(package: Path, tmp_path: Path) -> Path:  # noqa: F811
    directory = tmp_path / "unpacked"
    directory.mkdir()
    unpack(package, directory)
    return directory


def rewritten(directory: Path, **changes: object) -> str:
    """Change a package's manifest; returns the name of its first kernel."""
    file = directory / MANIFEST
    manifest = read_manifest(file.read_bytes(), "test")
    first, *others = manifest.kernels
    first = first.model_copy(update={"is_tuned": changes.pop("is_tuned", False)})
    changes["kernels"] = [first, *others]
    file.write_text(manifest.model_copy(update=changes).sealed().model_dump_json())
    return first.name


def test_a_tuned_kernel_that_a_driver_refuses_can_be_had_without_its_record(unpacked: Path):
    name = rewritten(unpacked, is_tuned=True)
    failure = explain_failure(f"Traceback (most recent call last):\n  File x\n{LAUNCH.format(kernel=name)}\n", unpacked)
    assert failure.problem.startswith(f"cannot launch kernel '{name}_kernel_1' with 64×1×1 work items")
    assert failure.problem.endswith("CL_OUT_OF_RESOURCES (-5)")
    assert failure.remedy == (
        f"build it without its record: add {name} to targets.t.tuning.untuned, and run the same command again"
    )


def test_an_untuned_kernel_that_a_driver_refuses_gets_fewer_threads_or_is_tuned(unpacked: Path):
    name = rewritten(unpacked, target={"kind": "opencl", "max_num_threads": 256})
    remedy = "have schedules use fewer threads: set targets.t.attributes.max_num_threads to 32 or less"
    assert explain_failure(LAUNCH.format(kernel=name), unpacked).remedy == remedy
    rewritten(unpacked, target={"kind": "opencl", "max_num_threads": 32})
    remedy = "tune it on this device (targets.t.tuning.trials), which discards candidates that the driver refuses"
    assert explain_failure(LAUNCH.format(kernel=name), unpacked).remedy == remedy


def test_a_processor_without_the_targets_instructions_is_named_with_what_it_lacks(unpacked: Path):
    rewritten(unpacked, target={"kind": "llvm", "mcpu": "diamondrapids"})
    remedy = crash_remedy("SIGILL", unpacked, "flags\t\t: fma avx avx2 f16c bmi2")
    assert re.match(
        r"the processor lacks amx-\S+, .* … of diamondrapids: build for the device's own \(targets\.t\.mcpu;", remedy
    )
    assert crash_remedy("SIGILL", unpacked).startswith(
        "the processor lacks instructions of the package's target: build"
    )
    assert crash_remedy("SIGSEGV", unpacked).startswith("the generated code crashed")
    assert crash_remedy("SIGKILL", unpacked) == "out of memory?"


@pytest.mark.parametrize(
    ("output", "problem", "remedy"),
    [
        ("OpenCL: kernel 'k' computes in float16, and 'Chip' does not", "computes in float16", "variants.exclude"),
        ("OpenCL: a texture of width 9, height 1 and 1 layers does not fit", "of width 9", "texture_spatial_limit"),
        ("OpenCL: 'Chip' has no images", "no images", "'-buffer' target"),
        ("OpenCL: cannot allocate a buffer of 9 MiB on 'Chip': CL_OUT_OF_RESOURCES (-5)", "buffer of 9", "smaller"),
        ("tvm.error.InternalError: std::bad_alloc", "not enough memory", "smaller batch"),
        (
            "OpenCL: kernel 'k' does not compile for 'Chip': CL_BUILD_PROGRAM_FAILURE (-11)",
            "'k' does not",
            "build.dump",
        ),
        ("Failed to load dynamic shared library mod.so: no such file", "mod.so", "mtriple"),
        ("load dynamic shared library a: version `GLIBC_2.38' not found", "GLIBC_2.38", "glibc"),
        (
            "Failed to load dynamic shared library /a b/mod.so /a b/mod.so: failed to map segment from shared object",
            "mod.so cannot be loaded: failed to map segment",
            "not mounted noexec",
        ),
        ("ValueError: something else", "something else", "tvmake doctor"),
        ("", "no message", "job's log"),
    ],
)
def test_every_failure_has_one_line_and_a_remedy(output: str, problem: str, remedy: str):
    failure = explain_failure(output)
    assert problem in failure.problem and "\n" not in failure.problem
    assert remedy in failure.remedy and "\n" not in failure.remedy
