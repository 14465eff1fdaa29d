"""``tvmake check`` refuses what ``tvmake make`` would."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.patience import HANG_S
from tests.workflow.project import ROOT, SCRIPTS


@pytest.mark.parametrize("target", ["vulkan", {"kind": "vulkan"}])
def test_a_target_that_this_tvm_has_no_code_for_is_refused(tmp_path: Path, target: object):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path)
    config = {"models": {"digits": {"source": "digits.onnx"}}, "targets": {"gpu": target}}
    (tmp_path / "tvmake.yaml").write_text(yaml.safe_dump(config))
    command = [str(SCRIPTS / "tvmake"), "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1
    assert "targets.gpu.kind: TVM" in done.stderr and "generates no code for 'vulkan'" in done.stderr


@pytest.mark.parametrize(
    ("kind", "why"), [("rocm", "Cannot find ROCm path"), ("hexagon", "generates no code for 'hexagon' here")]
)
def test_a_target_whose_generator_lacks_something_here_is_refused(tmp_path: Path, kind: str, why: str):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx"}, kind)
    assert done.returncode == 1, done.stdout
    assert "targets.target.kind: TVM" in done.stderr and why in done.stderr


@pytest.mark.parametrize("kind", ["webgpu", "metal"])
def test_a_target_that_can_only_be_compiled_for_passes(tmp_path: Path, kind: str):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx"}, kind)
    assert done.returncode == 0 and "(package only)" in done.stdout


def scikit_learn() -> bytes:
    """A tree as scikit-learn's exporter writes it."""
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in ("x", "y")]
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml")
    model = helper.make_model(
        helper.make_graph([node], "tree", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)],
    )
    return model.SerializeToString()


DIGITS = (ROOT / "resources" / "digits.onnx").read_bytes()
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "problem", "remedy"),
    [
        ("m.onnx", b"", "is empty", "copy the file again"),
        ("m.onnx", DIGITS[:3000], "not an ONNX model, or a truncated one", "copy the file again"),
        ("m.onnx", LFS, "is a pointer of Git LFS, not the model itself", "git lfs pull"),
        ("m.onnx", b"<!DOCTYPE html><html>", "is a web page", "download the file itself"),
        ("m.onnx", b"\x1c\0\0\0TFL3" + bytes(64), "is a TFLite model", "format: tflite"),
        ("m.onnx", None, "is a directory", "name the model's file"),
        ("m.tflite", DIGITS, "is not a TFLite model", "copy or download the file again"),
        ("m.pt2", b"PK\x03\x04", "is truncated", "copy or download the file again"),
        ("m.onnx", scikit_learn(), "from outside ONNX cannot be imported: ai.onnx.ml::TreeEnsembleRegressor", "ONNX Runtime"),
        ("zoo:resnet81", None, "the zoo has no network 'resnet81'", "did you mean 'zoo:resnet18'?"),
    ],
    ids=[
        "empty", "truncated", "Git LFS", "web page", "TFLite as ONNX", "directory", "ONNX as TFLite", "truncated archive",
        "scikit-learn", "misspelt",
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: bytes | None, problem: str, remedy: str
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    elif ":" not in name:
        (tmp_path / name).mkdir()
    done = checked(tmp_path, {"source": name})
    assert done.returncode == 1, done.stdout
    assert f"models.m: {name}: " in done.stderr and problem in done.stderr and remedy in done.stderr


def test_inputs_that_the_model_does_not_have_are_refused(tmp_path: Path):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx", "inputs": {"imag": {"shape": [1, 1, 8, 8]}}})
    assert done.returncode == 1 and "the model has no input 'imag'" in done.stderr


def checked(directory: Path, model: dict[str, object], kind: str = "llvm") -> "subprocess.CompletedProcess[str]":
    """``tvmake check`` of one model."""
    config = {"models": {"m": model}, "targets": {"target": {"kind": kind}}}
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
    command = [str(SCRIPTS / "tvmake"), "check"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=HANG_S, check=False)
