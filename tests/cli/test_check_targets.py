"""Targets that ``tvmake make`` could not compile for are refused by ``tvmake check``."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.checking import check_of, checked, tvmake
from tests.workflow.project import ROOT


@pytest.mark.parametrize("target", ["vulkan", {"kind": "vulkan"}])
def test_a_target_that_this_tvm_has_no_code_for_is_refused(tmp_path: Path, target: object):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path)
    config = {"models": {"digits": {"source": "digits.onnx"}}, "targets": {"gpu": target}}
    (tmp_path / "tvmake.yaml").write_text(yaml.safe_dump(config))
    done = tvmake(tmp_path, "check")
    assert done.returncode == 1
    assert "targets.gpu.kind: TVM" in done.stderr and "generates no code for 'vulkan'" in done.stderr


@pytest.mark.parametrize(
    ("kind", "why"), [("rocm", "Cannot find ROCm path"), ("hexagon", "generates no code for 'hexagon' (")]
)
def test_a_target_whose_generator_lacks_something_here_is_refused(tmp_path: Path, kind: str, why: str):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx"}, kind)
    assert done.returncode == 1, done.stdout
    assert "targets.target.kind: TVM" in done.stderr and why in done.stderr


def test_a_note_says_how_clml_was_tested(tmp_path: Path):
    done = check_of(tmp_path, {"targets": {"phone": "adreno-730-clml"}})
    assert done.returncode == 0, done.stderr
    assert "note: targets.phone: layers run in Qualcomm's CLML if the device has it" in done.stdout


@pytest.mark.parametrize("kind", ["webgpu", "metal"])
def test_a_target_that_can_only_be_compiled_for_passes(tmp_path: Path, kind: str):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx"}, kind)
    assert done.returncode == 0 and "(package only)" in done.stdout


@pytest.mark.parametrize(
    ("target", "problem", "remedy"),
    [
        ({"mcpu": "native", "mattr": ["+avx2", "+avx512vnnni"]}, "no feature 'avx512vnnni' for x86_64", "'avx512vnni'"),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon", "-dotprd"]}, "no feature 'dotprd' for aarch64", "'dotprod'"),
    ],
)  # fmt: skip
def test_a_feature_that_llvm_would_ignore_is_refused(tmp_path, target, problem, remedy):
    done = check_of(tmp_path, {"targets.cpu": target})
    assert done.returncode == 1
    assert ": targets.cpu.mattr: LLVM knows " + problem in done.stderr
    assert f"did you mean {remedy}?" in done.stderr
    assert "ignoring feature" not in done.stderr


@pytest.mark.parametrize(
    ("target", "where", "problem", "remedy"),
    [
        ({"kind": "opencl", "attributes": {"num_threads": 4}}, "attributes.num_threads",
         "targets of kind 'opencl' have no attribute 'num_threads'", "did you mean 'max_num_threads'?"),
        ({"kind": "llvm", "attributes": {"num_corse": 4}}, "attributes.num_corse",
         "targets of kind 'llvm' have no attribute 'num_corse'", "did you mean 'num-cores'?"),
        ({"kind": "llvm", "attributes": {"num-cores": "four"}}, "attributes.num-cores", "expected a whole number (got 'four')", ""),
        ({"kind": "llvm", "arch": "sm_87"}, "arch", "targets of kind 'llvm' have no attribute 'arch'", "they have: "),
        ({"kind": "opencl", "host": {"attributes": {"cores": 4}}}, "host.attributes.cores",
         "targets of kind 'llvm' have no attribute 'cores'", "did you mean 'num-cores'?"),
        ({"kind": "opencl", "host": {"kind": "opencl"}}, "", "a host is the CPU beside a GPU", "host: aarch64-linux-android"),
        ({"kind": "llvm", "host": {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}}, "", "a CPU has no host", "beside the kind"),
        ({"tag": "adreno-730-texture", "mtriple": "aarch64-linux-gnu"}, "mtriple", "have no attribute 'mtriple'", "write it below `host`"),
        ({"kind": "cuda", "arch": "sm_12"}, "arch", "there is no architecture 'sm_12'", "sm_86"),
        ({"kind": "cuda", "mcpu": "x"}, "", "'cuda' has no mcpu, mtriple and mattr", "under host"),
        ({"kind": "opencl", "mtriple": "aarch64-linux-gnu"}, "", "'opencl' has no mcpu, mtriple and mattr", "under host"),
    ],
)  # fmt: skip
def test_what_a_target_cannot_have_is_refused_by_name(tmp_path, target, where, problem, remedy):
    done = check_of(tmp_path, {"targets.g": target})
    assert done.returncode == 1
    assert re.match(rf"error: tvmake\.yaml:\d+: targets\.g{f'.{where}' if where else ''}: ", done.stderr), done.stderr
    assert problem in done.stderr and remedy in done.stderr and len(done.stderr.splitlines()[0]) < 200


@pytest.mark.parametrize("kind", ["vulkan", "hexagon"])
def test_a_target_in_a_list_is_named_with_its_line(tmp_path, kind):
    done = check_of(tmp_path, {"targets": [kind]})
    assert re.match(rf"error: tvmake\.yaml:\d+: targets\.{kind}\.kind: TVM", done.stderr)
    ready = re.search(r"it does for (.*?);", done.stderr)[1].split(", ")
    assert "llvm" in ready and kind not in ready
