"""``tvmake check`` refuses what ``tvmake make`` would."""

import io
import json
import os
import re
import shutil
import subprocess
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from tests.patience import HANG_S
from tests.requirements import need
from tests.workflow.project import ROOT, SCRIPTS
from tvmake.cli import run


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


def test_what_is_proven_of_clml_is_said(tmp_path: Path):
    done = check_of(tmp_path, {"targets": {"phone": "adreno-730-clml"}})
    assert done.returncode == 0, done.stderr
    assert "note: targets.phone: layers by Qualcomm's CLML where the device has it" in done.stdout


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
        ("m.onnx", LFS, "is a pointer of Git LFS, not the model itself", "git lfs pull"),
        ("m.onnx", b"<!DOCTYPE html><html>", "is a web page", "download the file itself"),
        ("m.onnx", b"\x1c\0\0\0TFL3" + bytes(64), "is a TFLite model", "format: tflite"),
        ("m.onnx", None, "is a directory", "name the model's file"),
        ("m.tflite", DIGITS, "is not a TFLite model", "copy or download the file again"),
        ("m.pt2", b"PK\x03\x04", "is truncated", "copy or download the file again"),
        ("m.onnx", scikit_learn(), "from outside ONNX cannot be imported: ai.onnx.ml::TreeEnsembleRegressor", "ONNX Runtime"),
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
        "empty", "truncated", "Git LFS", "web page", "TFLite as ONNX", "directory", "ONNX as TFLite", "truncated archive",
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
        (zipped("m/data.pkl", "m/code/x.py", "m/constants.pkl"), "is a TorchScript archive", "torch.export.save("),
        (
            zipped("m/data.pkl", "m/data/0"),
            "is a file of torch.save, with weights and no network",
            "torch.export.save(",
        ),
        (
            zipped("m/models/model.json"),
            "is a program that PyTorch exported",
            "rename it to .pt2, or set `format: pt2`",
        ),
        (zipped("config.json", "model.weights.h5"), "is a Keras model", "rename it to .keras"),
        (zipped("readme.txt"), "is a zip archive, and of no kind that is known", "unpack it"),
    ],
    ids=["TorchScript", "weights", "pt2", "Keras", "any"],
)
def test_what_an_archive_holds_is_said(tmp_path, name, content, what, remedy):
    (tmp_path / name).write_bytes(content)
    done = checked(tmp_path, {"source": name})
    assert done.returncode == 1 and what in done.stderr and remedy in done.stderr


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("*.onnx", "patterns are not expanded; name one file"),
        ("$HOME/m.onnx", "variables of the environment are not replaced"),
        ("hf://org/model", "download it and name the file"),
        ("saved", "python -m tf2onnx.convert --saved-model saved"),
        ("m.gguf", "llama.cpp's layout"),
        ("m.safetensors", "build the module with them, and export it"),
        ("m.ckpt", "a checkpoint holds weights only"),
        ("m.onnx.gz", "decompress it"),
        ("m.mlmodel", "export the model from its framework"),
    ],
)
def test_what_to_do_about_a_source_that_is_not_read_is_said(tmp_path, source, remedy):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/saved_model.pb").touch()
    done = checked(tmp_path, {"source": source})
    assert done.returncode == 1 and "models.m.source: " in done.stderr and remedy in done.stderr
    assert "set format" not in done.stderr


def test_inputs_that_the_model_does_not_have_are_refused(tmp_path: Path):
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / "m.onnx")
    done = checked(tmp_path, {"source": "m.onnx", "inputs": {"imag": {"shape": [1, 1, 8, 8]}}})
    assert done.returncode == 1 and "models.m.inputs: m.onnx: the model has no input 'imag'" in done.stderr


def test_an_opset_that_there_is_not_is_refused(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(DIGITS)
    done = checked(tmp_path, {"source": "m.onnx", "opset": 99})
    assert (
        done.returncode == 1 and "m.onnx: there is no opset 99: this release of onnx knows opsets up to" in done.stderr
    )


def test_a_function_that_is_not_trusted_is_refused(tmp_path: Path):
    (tmp_path / "nets.py").write_text("open('it_ran', 'w')\n")
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
def test_a_file_that_is_no_python_is_refused_and_one_that_may_have_any_name_is_not(tmp_path, text, problem):
    (tmp_path / "nets.py").write_text(text)
    done = check_of(tmp_path, {"models.digits.goals.metrics.f1.use": "nets:f1"})
    assert done.returncode == bool(problem) and problem in done.stderr, done.stderr


def checked(directory: Path, model: dict[str, object], kind: str = "llvm") -> "subprocess.CompletedProcess[str]":
    """``tvmake check`` of one model."""
    config = {"models": {"m": model}, "targets": {"target": {"kind": kind}}}
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
    command = [str(SCRIPTS / "tvmake"), "check"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=HANG_S, check=False)


def check_of(directory: Path, change: dict[str, object], *arguments: str) -> subprocess.CompletedProcess[str]:
    """``tvmake check`` of a config for the digits that is right but for some keys, given as ``models.digits.source``."""
    for name in ("digits.onnx", "digits-test.npz"):
        shutil.copy(ROOT / "resources" / name, directory)
    config: dict = {"models": {"digits": {"source": "digits.onnx", "dataset": {"path": "digits-test.npz"}}}}
    for key, value in change.items():
        *parents, last = key.split(".")
        place = config
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    command = [str(SCRIPTS / "tvmake"), "check", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=HANG_S, check=False)


@pytest.mark.parametrize(
    ("change", "code", "where", "problem", "remedy"),
    [
        ({"targets.cpu": {"mcpu": "skylaek"}}, 1, ": targets.cpu.mcpu", "LLVM knows no CPU", "'skylake'"),
        ({"targets.cpu": {"mcpu": "cortexa76"}}, 1, ": targets.cpu.mcpu", "LLVM knows no CPU", "mtriple: aarch64-linux-gnu"),
        ({"targets.cpu": {"mcpu": "apple-m1", "mtriple": "aarch64-linux-gnu"}}, 1, ": targets.cpu.mcpu", "LLVM knows no CPU",
         "apple-a14"),
        ({"targets.cpu": {"mtriple": "foo-bar"}}, 1, ": targets.cpu.mtriple", "no processor 'foo'", "aarch64-linux-android"),
        ({"precisions": {"half": {"base": "float16", "never": ["conv2d"]}}}, 1, ": precisions.half.never",
         "Relax has no such operator", "did you mean 'nn.conv2d'?"),
        ({"targets.cpu": {"cc": "nog++"}}, 3, ": targets.cpu", "'nog++' is not installed", "toolchain: zig"),
        ({"models.digits.dataset": None, "models.digits.goals.top1": 0.9}, 1, ": models.digits.goals.top1",
         "the model has no dataset", "top1_agreement"),
        ({"models.digits.dataset.labels": None, "models.digits.goals.top1_drop": 0.1}, 1,
         ": models.digits.goals.top1_drop", "digits-test.npz has none", "dataset.labels"),
        ({"models.digits.dataset.path": "none.npz"}, 1, ": models.digits.dataset.path", "no such file", "begin at /"),
        ({"models.digits.source": "none.onnx"}, 1, ": models.digits.source", "no such file", "begin at /"),
        ({"models.digits.transform.passes": [{"at": "start", "use": "gone.x:f"}]}, 1,
         ".transform.passes[0].use", "no such file: gone/x.py", "begin at /"),
        ({"models.digits.source": "a{b}.onnx"}, 1, ": models.digits.source", "Snakemake takes {b} in a name for a pattern: a{b}.onnx",
         "without the braces"),
        ({"models.digits.source": "digit.onnx"}, 1, ": models.digits.source", "no such file", "did you mean 'digits.onnx'?"),
        ({"models.digits.goals.metrics.f1.use": "gone:f1"}, 1, ": models.digits.goals.metrics.f1.use", "no such file: gone.py",
         "begin at /"),
        ({"models.digits.goals.metrics.f1.use": "os:f1"}, 1, ": models.digits.goals.metrics.f1.use", "'os' has no function 'f1'", "it defines"),
        ({"models.digits.source": "~/digits.onnx"}, 1, ": models.digits.source", "no such file", "the whole path"),
        ({"models.digits.source": "http://x/y.onnx"}, 1, ": models.digits.source", "no such file", "download it"),
        ({"targets.cpu": {"mattr": ["avx2"]}}, 1, ": targets.cpu.mattr", "switched on by +", "'+avx2'"),
        ({"models.digits.dataset.images": "pixels"}, 1, ": models.digits.dataset", "no array 'pixels'", "images"),
        ({"tuning": {"store": "digits.onnx", "trials": 4}}, 1, ": tuning.store: digits.onnx", "no directory", "records"),
        ({"models.digits.dataset.preprocess.crop": 500}, 1, ": models.digits.dataset", "cropped to 500×500", "preprocess.resize"),
        ({"models.digits.dims.batch": 4}, 1, ": models.digits.dims", "no dynamic dimension 'batch'", "shapes are fixed"),
        ({"models.digits.goals.sqnr_db": -3}, 1, ": models.digits.goals.sqnr_db", "expected at least 0", ""),
        ({"results": "/proc/results"}, 1, ": results", "no directory can be made in /proc", "that you may write to"),
        ({"cache": "results"}, 1, ": cache", "is the directory of results", "of its own"),
        ({"cache": "out/cache", "results": "out"}, 1, ": cache", "lies in results", "of its own"),
        ({"cache": "out", "results": "out/results"}, 1, ": cache", "holds results", "of its own"),
        ({"tuning": {"store": "logs/x", "trials": 4}}, 1, ": tuning.store", "lies in logs", "of its own"),
        ({"tuning": {"shared": ".", "trials": 4}}, 1, ": tuning.shared", "holds results", "of its own"),
        ({"tuning": {"store": "x/records", "trials": 4}, "cache": "x"}, 1, ": tuning.store", "lies in cache", "of its own"),
        ({"tuning.store": "/proc/x", "tuning.trials": 4}, 1, ": tuning.store: /proc/x", "no directory can be made in /proc", "write to"),
        ({"tuning.shared": "foo://x", "tuning.trials": 4}, 1, ": tuning.shared: foo://x", "no address", "s3://"),
        ({"tuning.frozen": "nope.lock"}, 1, ": tuning.frozen: nope.lock", "no such lock", "`tvmake lock` writes one"),
        ({"tuning.frozen": "digits.onnx"}, 1, ": tuning.frozen: digits.onnx", "is no lock", "write it again"),
        ({"cache": "digits.onnx"}, 1, ": cache: digits.onnx", "is no directory", "another"),
        ({"cache": "foo://x"}, 1, ": cache: foo://x", "no address", "s3://"),
        ({"cache.secret_file": "gone"}, 3, ": cache.secret_file: gone", "cannot be read", "put the secret"),
        ({"devices.pi": {"via": "ssh", "host": "a", "identity": "gone"}, "targets.cpu": {"kind": "llvm", "device": "pi"}}, 1,
         ": devices.pi.identity", "there is no gone", "relative paths begin at"),
        ({"devices.pi": {"via": "ssh", "host": "a", "programs": "digits"}, "targets.cpu": {"kind": "llvm", "device": "pi"}}, 1,
         ": devices.pi.programs", "there is no digits", "relative paths begin at"),
        ({"targets.cpu": {"mtriple": "aarch64-linux-gnu", "device": "local"}}, 3, ": targets.cpu", "it is for aarch64, and its device is",
         "compile for this device"),
        ({"precisions": ["fp16"]}, 1, ": precisions.fp16", "expected one of", "did you mean 'float16'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_line_key_cause_and_remedy(tmp_path, change, code, where, problem, remedy):
    done = check_of(tmp_path, change)
    assert done.returncode == code, done.stdout + done.stderr
    (line, *rest) = done.stderr.splitlines()
    assert re.match(r"error: tvmake\.yaml:\d+: ", line) and where in line and problem in line
    assert remedy in "".join(rest)


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
        ({"kind": "cuda", "arch": "sm_12"}, "arch", "there is no architecture 'sm_12'", "sm_86"),
        ({"kind": "cuda", "mcpu": "x"}, "", "'cuda' has no mcpu and mattr", "under host"),
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
    assert "for llvm, " not in done.stderr or "hexagon" not in done.stderr


def test_a_lock_with_records_that_would_not_be_used_is_refused(tmp_path):
    place = {"generation": "0.27", "target": {}, "device_class": "0" * 64, "kernels": []}
    lock = {"schema_version": 1, "records": {"digits/float32/cpu": place}, "layouts": {}}
    (tmp_path / "run.lock").write_text(json.dumps(lock))
    done = check_of(tmp_path, {"tuning.frozen": "run.lock"})
    assert done.returncode == 1
    assert ": tuning.frozen: run.lock: has records of digits/float32/cpu, which is built without" in done.stderr
    assert "set tuning.trials" in done.stderr
    assert check_of(tmp_path, {"tuning": {"frozen": "run.lock", "trials": 8}}).returncode == 0


def test_labels_beyond_the_models_classes_are_refused(tmp_path):
    with np.load(ROOT / "resources/digits-test.npz") as arrays:
        np.savez(tmp_path / "shifted.npz", images=arrays["images"], labels=arrays["labels"] + 1)
    done = check_of(tmp_path, {"models.digits.dataset.path": "shifted.npz"})
    assert done.returncode == 1
    assert "has label 10, the model's classes are 0 to 9" in done.stderr


def test_values_for_dimensions_that_a_model_has_are_accepted(tmp_path):
    shapes = {"inputs": {"image": {"shape": ["batch", 1, 8, 8]}}}
    model = onnx.load(ROOT / "resources/digits.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, tmp_path / "open.onnx")
    for source, dims, code in (({}, "n", 0), ({}, "batch", 1), (shapes, "batch", 0), (shapes, "n", 1)):
        done = check_of(tmp_path, {"models": {"digits": {"source": "open.onnx", **source, "dims": {dims: 4}}}})
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize(("name", "read_as"), [("on", "True"), ("18", "18"), ("null", "None")])
def test_a_name_that_yaml_makes_something_else_of_is_shown_as_written(tmp_path, name, read_as):
    (tmp_path / "tvmake.yaml").write_text(f"models:\n  {name}: {{source: digits.onnx}}\n")
    command = [str(SCRIPTS / "tvmake"), "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1
    assert f"tvmake.yaml:2: models: YAML reads the name {name} as {read_as}" in done.stderr
    assert f"put it in quotation marks: '{name}'" in done.stderr


def test_a_mistake_in_a_setting_is_said_to_be_there(tmp_path):
    done = check_of(tmp_path, {}, "--set", "benchmark.repeet=3")
    assert done.stderr.startswith(
        "error: --set benchmark.repeet=3: benchmark.repeet: unknown key\n  did you mean 'repeat'?"
    )


def test_a_right_config_passes(tmp_path):
    done = check_of(tmp_path, {"models.digits.goals.top1": 0.9})
    assert done.returncode == 0, done.stderr


def test_results_in_whose_directory_the_project_lies_are_refused(tmp_path):
    done = check_of(tmp_path, {"results": str(tmp_path.parent)})
    assert done.returncode == 1 and ": results: " in done.stderr and "the project lies in it" in done.stderr


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_that_looks_as_it_is_written_and_has_other_characters_is_told_from_it(tmp_path, form):
    there, written = (
        unicodedata.normalize(form, "mod\u00e8le.onnx"),
        {"NFC": "mode\u0300le.onnx", "NFD": "mod\u00e8le.onnx"},
    )
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / there)
    done = check_of(tmp_path, {"models.digits.source": written[form]})
    (remedy,) = re.findall(r'write (".*")$', done.stderr, flags=re.MULTILINE)
    assert done.returncode == 1 and yaml.safe_load(remedy) == there


def test_a_config_is_checked_in_another_directory(tmp_path):
    done = check_of(tmp_path, {"models.digits.source": "none.onnx"}, "--directory", str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith("error: tvmake.yaml:")
    assert check_of(tmp_path, {}, "-d", "elsewhere").stderr == "error: elsewhere: no such directory\n"


@pytest.mark.parametrize(
    ("name", "where", "problem", "remedy"),
    [
        (
            "digits.onnx",
            "tvmake.yaml:3: models.digits.source",
            "cannot be read: permission denied: digits.onnx",
            "ls -l",
        ),
        ("results", "results", "the directory may not be read", "its mode is d---------: chmod u+rwx results"),
        (".snakemake", ".snakemake", "the directory may not be read", "chmod u+rwx .snakemake"),
    ],
)
def test_what_others_own_is_refused(tmp_path, name, where, problem, remedy):
    need("setpriv and unshare")
    assert check_of(tmp_path, {}).returncode == 0
    for directory in ("results", ".snakemake"):
        (tmp_path / directory).mkdir(exist_ok=True)
    (tmp_path / name).chmod(0)
    # Root, too, goes by owner and mode without this.
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    command = [*(command if os.geteuid() == 0 else ()), str(SCRIPTS / "tvmake"), "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == (1 if name == "digits.onnx" else 3), done.stdout
    assert done.stderr.startswith(f"error: {where}: {problem}") and remedy in done.stderr


def test_an_environment_that_gives_no_number_of_threads_is_refused_where_packages_run_here(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    model = Path(__file__).parents[2] / "resources/digits.onnx"
    config = "models: {{m: {{source: {0}}}}}\nprecisions: [float32]\ntargets: {{cpu: {{kind: llvm}}}}\n"
    Path("tvmake.yaml").write_text(config.format(model))
    monkeypatch.setenv("TVM_NUM_THREADS", "many")
    assert run(["check"]) == 3
    assert "TVM_NUM_THREADS: expected a number from 1 on (got 'many')\n  unset it" in capfd.readouterr().err
