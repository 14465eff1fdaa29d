"""Models that ``tvmake make`` could not import are refused by ``tvmake check``."""

import io
import shutil
import zipfile
from pathlib import Path

import onnx
import pytest

from tests.cli.checking import check_of, checked
from tests.workflow.project import ROOT


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


def relu(operator: str = "Relu", taken: str = "x", **changes: object) -> bytes:
    """A network of one operator, with fields of the model changed."""
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    node = helper.make_node(operator, [taken], ["y"], name="one")
    made = helper.make_graph([node], "one", values[:1], values[1:])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    for field, value in changes.items():
        setattr(model, field, value) if value is not None else model.ClearField(field)
    return model.SerializeToString()


def elsewhere(location: str, length: int) -> bytes:
    """The digits with their first weights in another file."""
    model = onnx.load_from_string(DIGITS)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return model.SerializeToString()


DIGITS = (ROOT / "resources" / "digits.onnx").read_bytes()
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "problem", "remedy"),
    [
        ("m.onnx", b"", "is empty", "copy the file again"),
        ("m.onnx", DIGITS[:3000], "not an ONNX model, or a truncated one", "copy the file again"),
        ("m.onnx", LFS, "is a pointer of Git LFS, not the file itself", "git lfs pull"),
        ("m.onnx", b"<!DOCTYPE html><html>", "is a web page", "download the file itself"),
        ("m.onnx", b"\x1c\0\0\0TFL3" + bytes(64), "is a TFLite model", "format: tflite"),
        ("m.onnx", None, "is a directory", "name the model's file"),
        ("m.tflite", DIGITS, "is an ONNX model", "rename it to .onnx"),
        ("m.pt2", DIGITS, "is an ONNX model", "rename it to .onnx"),
        ("m.keras", LFS, "is a pointer of Git LFS, not the file itself", "git lfs pull"),
        ("m.h5", b"", "is empty", "copy or download the file again"),
        ("m.keras", b"\x89HDF\r\n\x1a\n", "is an HDF5 file", "rename it to .h5"),
        ("m.pt2", b"PK\x03\x04", "is truncated", "copy or download the file again"),
        ("m.onnx", scikit_learn(), "from outside ONNX cannot be imported: ai.onnx.ml::TreeEnsembleRegressor", "hummingbird-ml"),
        ("m.onnx", relu(operator="Foo"), "No Op registered for Foo", "Export the model again"),
        ("m.onnx", relu(operator="RandomNormalLike"), "cannot be imported: RandomNormalLike (1×)", "make them an input"),
        ("m.onnx", relu(taken="gone"), "input 'gone' of node: name: one", "Export the model again"),
        ("m.onnx", relu(taken="y"), "input 'y' of node: name: one", "Export the model again"),
        ("m.onnx", relu(ir_version=99), "ir_version 99 is higher than the checker's", "Export the model again"),
        ("m.onnx", relu(opset_import=None), "must specify opset_import", "Export the model again"),
        ("m.onnx", elsewhere("gone.bin", 8), "external data 'gone.bin' is missing", "Copy the data files"),
        ("m.onnx", elsewhere("m.onnx", 1 << 30), "external data 'm.onnx' is shorter than", "Copy the data files"),
        ("m.onnx", elsewhere("/m.bin", 8), "named by an absolute path (/m.bin)", "location='m.onnx.data'"),
    ],
    ids=[
        "empty", "truncated", "Git LFS", "web page", "TFLite as ONNX", "directory", "ONNX as TFLite", "ONNX as pt2",
        "Git LFS as Keras", "empty Keras", "HDF5 as zip", "truncated archive",
        "scikit-learn", "unknown operator", "random", "undefined", "cycle", "IR version", "no opset", "missing data",
        "short data", "absolute data",
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: bytes | None, problem: str, remedy: str
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    else:
        (tmp_path / name).mkdir()
    done = checked(tmp_path, {"source": name})
    assert done.returncode == 1, done.stdout
    assert f"models.m.source: {name}: " in done.stderr and problem in done.stderr and remedy in done.stderr


def zipped(*names: str) -> bytes:
    """A zip archive with empty members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return file.getvalue()


@pytest.mark.parametrize("name", ["m.onnx", "m.pt"])
@pytest.mark.parametrize(
    ("content", "what", "remedy"),
    [
        (
            zipped("m/data.pkl", "m/data/0"),
            "is a file of torch.save, with weights and without the network",
            "torch.export.save(",
        ),
        (
            zipped("m/models/model.json"),
            "is a program that PyTorch exported",
            "rename it to .pt2, or set `format: pt2`",
        ),
        (zipped("config.json", "model.weights.h5"), "is a Keras model", "rename it to .keras"),
        (zipped("readme.txt"), "is a zip archive of an unknown kind", "unpack it"),
    ],
    ids=["weights", "pt2", "Keras", "any"],
)
def test_the_contents_of_an_archive_are_reported(tmp_path, name, content, what, remedy):
    (tmp_path / name).write_bytes(content)
    done = checked(tmp_path, {"source": name})
    assert done.returncode == 1 and what in done.stderr and remedy in done.stderr


@pytest.mark.parametrize("name", ["m.pth", "model", "m.bin"])
@pytest.mark.parametrize(
    ("content", "what", "remedy"),
    [
        (b"", "is empty", "download the file again"),
        (LFS, "is a pointer of Git LFS", "git lfs pull"),
        (DIGITS, "is an ONNX model", "set `format: onnx`"),
        (zipped("m/data.pkl", "m/code/x.py"), "is a TorchScript archive", "rename it to .pt"),
    ],
    ids=["empty", "Git LFS", "ONNX", "TorchScript"],
)
def test_the_kind_of_a_file_without_a_known_suffix_is_reported(tmp_path, name, content, what, remedy):
    (tmp_path / name).write_bytes(content)
    done = checked(tmp_path, {"source": name})
    assert done.returncode == 1 and what in done.stderr and remedy in done.stderr


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("m.joblib", "hummingbird-ml"),
        ("*.onnx", "patterns are not expanded; name one file"),
        ("$HOME/m.onnx", "variables of the environment are not replaced"),
        ("hf://org/model", "download it and name the file"),
        ("saved", "python -m tf2onnx.convert --saved-model saved"),
        ("m.gguf", "llama.cpp's layout"),
        ("m.safetensors", "build the module with them, and export it"),
        ("m.ckpt", "a checkpoint holds weights only"),
        ("m.pdmodel", "give the model that it was converted from"),
        ("bert", "copy or download the file again"),
    ],
)
def test_a_source_that_cannot_be_read_has_a_remedy(tmp_path, source, remedy):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/saved_model.pb").touch()
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert/config.json").touch()
    (tmp_path / "bert/model.safetensors").touch()
    done = checked(tmp_path, {"source": source})
    assert done.returncode == 1 and "models.m.source: " in done.stderr and remedy in done.stderr


def test_inputs_that_the_model_does_not_have_are_refused(tmp_path: Path):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx", "inputs": {"imag": {"shape": [1, 1, 8, 8]}}})
    assert done.returncode == 1 and "models.m.inputs.imag.shape: the model has no input 'imag'" in done.stderr


def test_an_opset_that_there_is_not_is_refused(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(DIGITS)
    done = checked(tmp_path, {"source": "m.onnx", "opset": 99})
    assert (
        done.returncode == 1 and "m.onnx: there is no opset 99: this release of onnx knows opsets up to" in done.stderr
    )


def test_a_function_that_is_not_trusted_is_refused(tmp_path: Path):
    (tmp_path / "nets.py").write_text("open('it_ran', 'w')\ndef net(): ...\n")
    done = checked(tmp_path, {"source": "nets:net"})
    assert done.returncode == 1 and "models.m.source: nets:net" in done.stderr and "trusted: true" in done.stderr
    assert not (tmp_path / "it_ran").exists()


NETS = """
from functools import partial as bound
def net(): ...
if True:
    maker = lambda: None
"""


@pytest.mark.parametrize(
    ("function", "problem"),
    [("net", ""), ("maker", ""), ("bound", ""), ("nofn", "'nets' has no function 'nofn' (nets.py)")],
)
@pytest.mark.parametrize("key", ["source", "metric", "pass"])
def test_a_function_that_its_file_does_not_define_is_refused_without_running_it(tmp_path, function, problem, key):
    (tmp_path / "nets.py").write_text(f"{NETS}\nopen('it_ran', 'w')\n")
    use = f"nets:{function}"
    change, where = {
        "source": ({"models": {"digits": {"source": use, "trusted": True}}}, "models.digits.source: nets:nofn: "),
        "metric": ({"models.digits.goals.metrics.f1.use": use}, "models.digits.goals.metrics.f1.use: "),
        "pass": ({"transform.passes": [{"at": "start", "use": use}]}, "transform.passes[0].use: "),
    }[key]
    done = check_of(tmp_path, change)
    assert done.returncode == bool(problem), done.stderr
    assert not problem or (where + problem in done.stderr and "it defines: net" in done.stderr)
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [("def f1(:\n", "cannot be imported: SyntaxError: invalid syntax (nets.py, line 1)"), ("from os import *\n", "")],
)
def test_a_file_that_is_not_python_is_refused_and_a_file_with_any_name_is_not(tmp_path, text, problem):
    (tmp_path / "nets.py").write_text(text)
    done = check_of(tmp_path, {"models.digits.goals.metrics.f1.use": "nets:f1"})
    assert done.returncode == bool(problem) and problem in done.stderr, done.stderr
