import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.datasets import load_digits

from tests.requirements import need_module

RESOURCES = Path(__file__).parents[2] / "resources"


@pytest.fixture(scope="module")
def held_out() -> tuple[np.ndarray, np.ndarray]:
    with np.load(RESOURCES / "digits-test.npz") as data:
        return data["images"], data["labels"]


@pytest.fixture(scope="module")
def onnx_logits(held_out) -> np.ndarray:
    session = onnxruntime.InferenceSession(RESOURCES / "digits.onnx", providers=["CPUExecutionProvider"])
    inputs = held_out[0].astype(np.float32).reshape(-1, 1, 1, 8, 8) / 16
    return np.concatenate([session.run(["logits"], {"image": image})[0] for image in inputs])


def test_shipped_files_are_the_ones_that_the_sums_name():
    lines = (RESOURCES / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums.keys() == {"digits-test.npz", "digits.onnx", "digits.pt2"}
    for name, digest in sums.items():
        assert hashlib.sha256((RESOURCES / name).read_bytes()).hexdigest() == digest, name


def test_shipped_files_are_small():
    assert sum(path.stat().st_size for path in RESOURCES.iterdir() if path.is_file()) < 300_000


def test_held_out_images_are_360_real_digits_of_every_class(held_out):
    images, labels = held_out
    assert (images.shape, images.dtype, images.max()) == ((360, 8, 8), np.uint8, 16)
    assert np.bincount(labels).min() >= 34
    digits = load_digits()
    known = {image.astype(np.uint8).tobytes(): label for image, label in zip(digits.images, digits.target, strict=True)}
    assert all(known[image.tobytes()] == label for image, label in zip(images, labels, strict=True))


def test_the_network_reads_at_least_97_percent_of_the_held_out_digits(held_out, onnx_logits):
    assert (onnx_logits.argmax(1) == held_out[1]).mean() >= 0.97


def test_onnx_and_pt2_are_the_same_network(held_out, onnx_logits):
    need_module("torch", "pip install 'tvmake[torch]'")
    import torch

    program = torch.export.load(RESOURCES / "digits.pt2").module()
    inputs = torch.from_numpy(held_out[0].astype(np.float32).reshape(-1, 1, 1, 8, 8) / 16)
    with torch.no_grad():
        logits = np.concatenate([program(image).numpy() for image in inputs])
    np.testing.assert_allclose(logits, onnx_logits, rtol=1e-4, atol=1e-5)


def test_the_onnx_file_keeps_its_batch_norms_for_the_compiler_to_fold():
    operators = [node.op_type for node in onnx.load(RESOURCES / "digits.onnx").graph.node]
    assert operators.count("BatchNormalization") == 3


@pytest.mark.soak
def test_training_again_gives_the_shipped_test_set_and_as_good_a_network(tmp_path):
    """Weights depend on the CPU's vector width, so only the data's bytes are compared."""
    script = RESOURCES / "train_digits.py"
    process = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=True)
    assert (tmp_path / "digits-test.npz").read_bytes() == (RESOURCES / "digits-test.npz").read_bytes()
    accuracy = float(next(line for line in process.stdout.splitlines() if "held-out" in line).rsplit(maxsplit=1)[1])
    assert accuracy >= 0.97
