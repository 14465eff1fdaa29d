"""Train the demo network on scikit-learn's handwritten digits and write the files of this directory.

    python resources/train_digits.py [directory]

Needs torch, onnx and scikit-learn; takes about half a minute on one core. Everything is seeded and runs on one
thread, so the same library versions give the same bytes; ``SHA256SUMS`` has the digests of the shipped files.

The data is the UCI "Optical Recognition of Handwritten Digits" test set as scikit-learn ships it: 1,797 images of
8×8 pixels, each 0..16. 360 of them, about 36 per class, are held out from training.
"""

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 20
HELD_OUT = 360
EPOCHS = 60
BATCH = 64
FULL_SCALE = 16.0
"""The brightest pixel of the data; the network sees pixels divided by it."""


class DigitsNet(nn.Module):
    """Two convolution stages with batch norm and a linear classifier: [1, 1, 8, 8] in 0..1 to 10 logits."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(image).flatten(1))


def split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images, held-out images, training labels, held-out labels; images are uint8 [n, 8, 8], 0..16."""
    digits = load_digits()
    return train_test_split(
        digits.images.astype(np.uint8),
        digits.target.astype(np.int64),
        test_size=HELD_OUT,
        stratify=digits.target,
        random_state=SEED,
    )


def as_input(images: np.ndarray) -> torch.Tensor:
    """uint8 [n, 8, 8] to float32 [n, 1, 8, 8] in 0..1."""
    return torch.from_numpy(images.astype(np.float32) / FULL_SCALE).unsqueeze(1)


def train(images: np.ndarray, labels: np.ndarray) -> DigitsNet:
    """Adam with a cosine schedule; each batch is shifted by up to one pixel, like handwriting."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    net = DigitsNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    inputs, targets = as_input(images), torch.from_numpy(labels)
    net.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(inputs), generator=generator).split(BATCH):
            right, down = torch.randint(0, 3, (2,), generator=generator).tolist()
            shifted = nn.functional.pad(inputs[batch], (1, 1, 1, 1))[:, :, down : down + 8, right : right + 8]
            loss = nn.functional.cross_entropy(net(shifted), targets[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return net.eval()


def accuracy(net: DigitsNet, images: np.ndarray, labels: np.ndarray) -> float:
    with torch.no_grad():
        return float((net(as_input(images)).argmax(1).numpy() == labels).mean())


def onnx_bytes(net: DigitsNet) -> bytes:
    """The network as ONNX, with batch norms as separate nodes, so that a compiler can fold them."""
    buffer = io.BytesIO()
    torch.onnx.export(
        net,
        (torch.zeros(1, 1, 8, 8),),
        buffer,
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=["image"],
        output_names=["logits"],
        opset_version=17,
    )
    model = onnx.load_from_string(buffer.getvalue())
    model.graph.name = "digits"
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def pt2_bytes(net: DigitsNet) -> bytes:
    """The network as a torch.export archive, without the exporting machine's paths."""
    program = torch.export.export(net, (torch.zeros(1, 1, 8, 8),), strict=False)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def npz_bytes(**arrays: np.ndarray) -> bytes:
    """Like ``np.savez_compressed``, with fixed time stamps."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).parent)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_images, test_images, train_labels, test_labels = split()
    net = train(train_images, train_labels)
    print(f"parameters: {sum(p.numel() for p in net.parameters())}")
    print(f"accuracy on {len(train_labels)} training images: {accuracy(net, train_images, train_labels):.4f}")
    print(f"accuracy on {len(test_labels)} held-out images: {accuracy(net, test_images, test_labels):.4f}")

    files = {
        "digits-test.npz": npz_bytes(images=test_images, labels=test_labels),
        "digits.onnx": onnx_bytes(net),
        "digits.pt2": pt2_bytes(net),
    }
    for name, data in files.items():
        (directory / name).write_bytes(data)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    (directory / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main()
