"""Train networks of the zoo on scikit-learn's handwritten digits, for figures that random weights cannot give.

    python benchmarks/trained_networks.py DIR [resnet18 mobilenet_v2 …]

Images are 8×8 pixels; the networks see them enlarged, in three equal channels. 360 of the 1,797 are held out, as for the demo's
network (resources/train_digits.py). Each takes some minutes on a core, once: what is in the directory is taken from there.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from comparing import ROOT
from torch.nn import functional

from tvmake.frontend.options import ImportOptions
from tvmake.frontend.zoo import models as zoo

sys.path.append(str(ROOT / "resources"))
from train_digits import FULL_SCALE, split  # isort: skip

SEED = 20
BATCH = 32


@dataclass(frozen=True)
class Training:
    """What a network needs to learn the digits."""

    size: int = 32
    """Pixels of a side; a network that halves it five times ends with a single position."""
    epochs: int = 10
    rate: float = 1e-3
    """Of AdamW."""


TRAININGS = {"mobilenet_v2": Training(64, 25, 3e-3)}


@dataclass(frozen=True)
class Trained:
    """A trained network and what it is judged by."""

    path: Path
    """ONNX: ``x``, float32 (1, 3, size, size), to ten logits."""
    seen: np.ndarray
    """Images that it was trained on, float32 (n, 3, size, size)."""
    held_out: np.ndarray
    labels: np.ndarray
    """Of the images that are held out, int64."""


def to_images(images: np.ndarray, size: int) -> torch.Tensor:
    """uint8 (n, 8, 8) to float32 (n, 3, size, size) around 0."""
    small = torch.from_numpy(images.astype(np.float32) / FULL_SCALE - 0.3)[:, None]
    return functional.interpolate(small, (size, size), mode="bilinear").expand(-1, 3, -1, -1)


def trained(name: str, directory: Path) -> Trained:
    """A network from the directory, trained and kept there first if it is not in it."""
    images, held_out, labels, expected = split()
    path, training = directory / f"{name}.onnx", TRAININGS.get(name, Training())
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        network = _train(name, training, images, labels)
        example = to_images(held_out[:1], training.size)
        torch.onnx.export(network, (example,), str(path), verbose=False, dynamo=False, input_names=["x"])
    seen, fresh = (to_images(some, training.size).numpy() for some in (images, held_out))
    return Trained(path, seen, fresh, expected)


def _train(name: str, training: Training, images: np.ndarray, labels: np.ndarray) -> torch.nn.Module:
    torch.manual_seed(SEED)
    options = ImportOptions(source=f"zoo:{name}", arguments={"num_classes": 10, "size": training.size})
    network = zoo.network(f"zoo:{name}", options)
    optimizer = torch.optim.AdamW(network.parameters(), lr=training.rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.epochs)
    inputs, targets = to_images(images, training.size), torch.from_numpy(labels)
    network.train().requires_grad_(True)
    for epoch in range(training.epochs):
        losses = []
        for batch in torch.randperm(len(inputs)).split(BATCH):
            shift = torch.randint(-training.size // 10, training.size // 10 + 1, (2,)).tolist()
            loss = functional.cross_entropy(network(torch.roll(inputs[batch], shift, (2, 3))), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        print(f"{name}: epoch {epoch + 1} of {training.epochs}: loss {np.mean(losses):.3f}", file=sys.stderr)
    return network.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("networks", nargs="*", default=["resnet18", "mobilenet_v2"])
    asked = parser.parse_args()
    for one in asked.networks:
        print(trained(one, asked.directory).path)
