"""TorchScript archives: what they compute, their inputs, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.frontend.torch.running import outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import torchscript
from tvmake.frontend.torch.importer import read


class Network(nn.Module):
    """Batch norm, a branch on a size, several outputs, and an argument with a default value."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
        self.head = nn.Linear(4, 5)

    def forward(self, image: Tensor, scale: float = 2.0) -> tuple[Tensor, dict[str, Tensor]]:
        features = torch.relu(self.layers(image))
        if image.size(0) > 1:
            features = features * scale
        return features, {"head": self.head(features.mean((2, 3)))}


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.sum = self.sum + x
        return self.sum


class InPlace(Stateful):
    def forward(self, x: Tensor) -> Tensor:
        return self.sum.add_(x) * 2


class Numbered(nn.Module):
    def forward(self, x: Tensor, rate: int) -> Tensor:
        return x * rate


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens).mean(1)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if bool(x.sum() > 0) else x - 1


def archive(path: Path, module: nn.Module, *example: Tensor) -> str:
    module = module.eval()
    torch.jit.save(torch.jit.trace(module, example) if example else torch.jit.script(module), path)
    return str(path)


def imported(source: str, **shapes: list[int | str]):
    inputs = {name: {"shape": shape} for name, shape in shapes.items()}
    options = ImportOptions(source=source, trusted=True, inputs=inputs)
    return read(torchscript.export(source, options), options)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_scripted_network_computes_the_same_with_the_branches_of_its_sizes(tmp_path: Path, batch: int):
    torch.manual_seed(0)
    network = Network()
    source = archive(tmp_path / "net.pt", network)
    image = torch.randn(batch, 3, 6, 6)
    model = imported(source, image=[batch, 3, 6, 6])
    assert [spec.name for spec in model.signature.inputs] == ["image"]
    features, others = network(image)
    for found, wanted in zip(outputs(model, image.numpy()), (features, others["head"]), strict=True):
        np.testing.assert_allclose(found, wanted.detach(), rtol=1e-4, atol=1e-5)


def test_a_traced_network_takes_token_indices_and_a_dynamic_batch(tmp_path: Path):
    network = Pooled()
    source = archive(tmp_path / "net.jit", network, torch.zeros(2, 4, dtype=torch.int64))
    model = imported(source, tokens=["batch", 4])
    assert model.signature.inputs[0].dtype == "int64" and model.signature.inputs[0].shape == ("batch", 4)
    for batch in (1, 3):
        tokens = torch.randint(0, 10, (batch, 4))
        np.testing.assert_allclose(outputs(model, tokens.numpy())[0], network(tokens).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(3, 4, 3, padding=1), (1, 3, 9)),
        (nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, groups=2), nn.BatchNorm2d(8), nn.ReLU()), (2, 4, 9, 9)),
        (nn.ConvTranspose2d(3, 4, 2, stride=2), (1, 3, 4, 4)),
    ],
)
def test_traced_convolutions_are_read(tmp_path: Path, layer: nn.Module, shape: tuple[int, ...]):
    x = torch.randn(shape)
    model = imported(archive(tmp_path / "net.pt", layer, x), **{"input": list(shape)})
    np.testing.assert_allclose(outputs(model, x.numpy())[0], layer(x).detach(), rtol=1e-4, atol=1e-5)


def test_an_archive_that_was_frozen_before_is_read(tmp_path: Path):
    torch.jit.save(torch.jit.freeze(torch.jit.script(Pooled().eval())), tmp_path / "net.pt")
    assert imported(str(tmp_path / "net.pt"), tokens=[1, 4]).params


@pytest.mark.parametrize(
    ("module", "shape", "problem"),
    [
        (Stateful(), [3], r"depend on earlier calls: forward\(\) stores sum"),
        (InPlace(), [3], r"depend on earlier calls: forward\(\) stores sum"),
        (Numbered(), [3], "'rate: int', which is not a tensor"),
        (Branching(), [3], "branches on the values"),
        (nn.Linear(4, 2), [1, 3], "fails on inputs of these shapes and dtypes: .*shapes cannot be multiplied"),
        (Pooled(), [3, 2], "forward\\(\\) has no argument 'x'"),
    ],
    ids=["attribute", "in place", "number", "branch", "other size", "name"],
)
def test_an_archive_that_no_package_can_be_is_refused(
    tmp_path: Path, module: nn.Module, shape: list[int], problem: str
):
    source = archive(tmp_path / "net.pt", module)
    with pytest.raises(InputError, match=problem):
        imported(source, **{"input" if isinstance(module, nn.Linear) else "x": shape})


def test_a_size_that_the_archive_computes_with_is_not_dynamic(tmp_path: Path):
    source = archive(tmp_path / "net.pt", Network())
    with pytest.raises(InputError, match="computes with a size that is to be dynamic"):
        imported(source, image=["batch", 3, 6, 6])


def test_an_input_without_a_shape_is_named_with_what_can_be_typed(tmp_path: Path):
    with pytest.raises(InputError, match="no shape for the input 'tokens'") as caught:
        imported(archive(tmp_path / "net.pt", Pooled()))
    assert "`inputs: {tokens: {shape: [" in str(caught.value.remedy)


def test_an_archive_runs_its_code_only_if_it_is_trusted(tmp_path: Path):
    source = archive(tmp_path / "net.pt", Pooled())
    with pytest.raises(InputError, match="loading a TorchScript archive runs code") as caught:
        torchscript.export(source, ImportOptions(source=source))
    assert "`trusted: true`" in str(caught.value.remedy)


def test_weights_alone_are_refused_whether_trusted_or_not(tmp_path: Path):
    torch.save(Pooled().state_dict(), tmp_path / "net.pt")
    for trusted in (False, True):
        options = ImportOptions(source=str(tmp_path / "net.pt"), trusted=trusted)
        with pytest.raises(InputError, match="with weights and without the network's code"):
            torchscript.export(options.source, options)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path):
    (tmp_path / "net.pt").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(InputError, match="is not a TorchScript archive"):
        imported(str(tmp_path / "net.pt"))
