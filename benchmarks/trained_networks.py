"""Networks of the zoo, trained on scikit-learn's handwritten digits, for figures that drawn weights cannot give.

    python benchmarks/trained_networks.py DIR [resnet18 mobilenet_v2 …]

Images are 8×8 pixels; the networks see them as 32×32 in three equal channels. 360 of the 1,797 are held out, as for the demo's
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

from tvmake.config.model import ImportOptions
from tvmake.frontend.zoo import models as zoo

sys.path.append(str(ROOT / "resources"))
from train_digits import FULL_SCALE, split  # isort: skip

SEED = 20
SIZE = 32
EPOCHS = 10
BATCH = 32


@dataclass(frozen=True)
class Trained:
    """A trained network and what it is judged by."""

    path: Path
    """ONNX: ``x``, float32 (1, 3, 32, 32), to ten logits."""
    seen: np.ndarray
    """Images that it was trained on, float32 (n, 3, 32, 32)."""
    held_out: np.ndarray
    labels: np.ndarray
    """Of the images that are held out, int64."""


def pictures(images: np.ndarray) -> torch.Tensor:
    """uint8 (n, 8, 8) to float32 (n, 3, 32, 32) around 0."""
    small = torch.from_numpy(images.astype(np.float32) / FULL_SCALE - 0.3)[:, None]
    return functional.interpolate(small, (SIZE, SIZE), mode="bilinear").expand(-1, 3, -1, -1)


def trained(name: str, directory: Path) -> Trained:
    """A network from the directory, trained and kept there first if it is not in it."""
    images, held_out, labels, expected = split()
    path = directory / f"{name}.onnx"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        network = _train(name, images, labels)
        example = pictures(held_out[:1])
        torch.onnx.export(network, (example,), str(path), verbose=False, dynamo=False, input_names=["x"])
    return Trained(path, pictures(images).numpy(), pictures(held_out).numpy(), expected)


def _train(name: str, images: np.ndarray, labels: np.ndarray) -> torch.nn.Module:
    torch.manual_seed(SEED)
    options = ImportOptions(source=f"zoo:{name}", arguments={"num_classes": 10, "size": SIZE})
    network = zoo.network(f"zoo:{name}", options)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    inputs, targets = pictures(images), torch.from_numpy(labels)
    network.train().requires_grad_(True)
    for epoch in range(EPOCHS):
        losses = []
        for batch in torch.randperm(len(inputs)).split(BATCH):
            shift = torch.randint(-3, 4, (2,)).tolist()
            loss = functional.cross_entropy(network(torch.roll(inputs[batch], shift, (2, 3))), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        print(f"{name}: epoch {epoch + 1} of {EPOCHS}: loss {np.mean(losses):.3f}", file=sys.stderr)
    return network.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("networks", nargs="*", default=["resnet18", "mobilenet_v2"])
    asked = parser.parse_args()
    for one in asked.networks:
        print(trained(one, asked.directory).path)
