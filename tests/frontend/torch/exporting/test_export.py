"""Export of modules, and the errors for those that cannot be exported."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.export import exported_program
from tvmake.frontend.torch.program import signature


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.first(x))


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Untraceable(nn.Module):
    def forward(self, x):
        return x + float(x.detach().numpy().sum())


def test_the_modes_of_submodules_are_restored():
    module = Steps().train()
    module.norm.eval()
    program = exported_program("steps", module, (torch.ones(2, 4),))
    assert module.training and module.first.training and not module.norm.training
    assert torch.equal(program.module()(torch.ones(2, 4)), module.eval()(torch.ones(2, 4)))


@pytest.mark.parametrize(
    ("examples", "cause"),
    [
        ((torch.ones(2, 5),), r"RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ((torch.ones(2, 4), torch.ones(1)), r"TypeError: .*forward\(\) takes 2 positional arguments but 3 were given"),
        ((3,), r"TypeError: linear\(\): argument 'input' \(position 1\) must be Tensor, not int"),
    ],
)
def test_wrong_examples_are_reported_as_the_cause(examples, cause, capfd):
    module = Steps()
    with pytest.raises(InputError, match=f"^steps: it cannot be called with its example inputs: {cause}") as caught:
        exported_program("steps", module, examples)
    assert "forward() takes" in caught.value.remedy
    assert module.training and "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (Branches(), r"branches on the values of its tensors \(.*test_export.py:\d+\)"),
        (Untraceable(), "torch.export cannot trace it"),
        (torch.jit.script(Branches()), "it is a TorchScript module"),
        (torch.ao.nn.quantized.Linear(4, 3), r"quantised layers that torch.export cannot trace: Linear \(1×\)"),
    ],
)
def test_untraceable_modules_are_refused_in_one_line(module, problem):
    with pytest.raises(InputError, match=problem) as caught:
        exported_program("net", module, (torch.ones(2, 4),))
    assert "\n" not in caught.value.problem and caught.value.remedy


class Asserting(nn.Module):
    def forward(self, x):
        assert (x > 0).all() and x.shape[0] == 2
        assert not x.isnan().any(), f"{x} is NaN"
        return x * 2


def test_assertions_on_values_are_assumed_to_hold():
    program = exported_program("net", Asserting(), (torch.ones(2, 4),))
    assert torch.equal(program.module()(torch.ones(2, 4)), torch.full((2, 4), 2.0))


class AssertingEither(nn.Module):
    def forward(self, x):
        assert (x > 0).all() or not (x > 1).any()
        return x


class Packing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(4, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.recurrent(packed)[1]


class WritingAtAnIndex(nn.Module):
    def forward(self, cache, index, x):
        cache = cache.clone()
        cache[:, index] = x
        return cache


class Scaling(nn.Module):
    def forward(self, x, scale):
        return x * float(scale)


@pytest.mark.parametrize(
    ("module", "examples", "remedy"),
    [
        (AssertingEither(), (torch.ones(2, 4),), "an assertion about values"),
        (Packing(), (torch.ones(2, 5, 4), torch.tensor([5, 3])), "the padded sequence"),
        (WritingAtAnIndex(), (torch.ones(2, 4), torch.tensor(1), torch.ones(2)), "index_copy(axis, index.reshape(1)"),
        (Scaling(), (torch.ones(2, 4), torch.tensor(2.0)), "compute with the tensor itself"),
        (Scaling(), (torch.ones(2, 4), torch.tensor(2)), "compute with the tensor itself"),
        (nn.Sequential(nn.LazyLinear(3)), (torch.ones(2, 4),), "call the module once"),
    ],
)
def test_the_remedy_depends_on_the_cause(module, examples, remedy):
    with pytest.raises(InputError) as caught:
        exported_program("net", module, examples)
    assert remedy in caught.value.remedy


class Likelihood(nn.Module):
    def forward(self, mean, deviation):
        return torch.distributions.Normal(mean, deviation).log_prob(torch.zeros(3))


def test_distributions_skip_validation_during_export_only(monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.compile turns it off for good
    examples = (torch.ones(3), torch.full((3,), 2.0))
    program = exported_program("likelihood", Likelihood(), examples)
    assert torch.equal(program.module()(*examples), Likelihood()(*examples))
    with pytest.raises(ValueError, match="constraint"):
        Likelihood()(torch.ones(3), torch.full((3,), -1.0))


class Covariance(nn.Module):
    def forward(self, rows):
        return torch.cov(rows), torch.corrcoef(rows), rows[0].cov(correction=0), rows[:, 0].corrcoef()


def test_covariances_without_weights():
    rows = torch.randn(3, 5)
    for found, expected in zip(
        exported_program("net", Covariance(), (rows,)).module()(rows), Covariance()(rows), strict=True
    ):
        torch.testing.assert_close(found, expected)


class Translation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, words):
        mask = self.both.generate_square_subsequent_mask(words.shape[1])
        return self.both(source, words, tgt_mask=mask)


def test_a_transformer_does_not_test_its_mask():
    module, examples = Translation().eval(), (torch.rand(1, 4, 8), torch.rand(1, 3, 8))
    program = exported_program("translation", module, examples)
    assert torch.allclose(program.module()(*examples), module(*examples), atol=1e-6)
    assert not any(part._forward_pre_hooks for part in module.modules())


class Talking(nn.Module):
    def forward(self, x):
        print("as the module says", file=sys.stderr)
        return x if x.sum() > 0 else -x


def test_output_of_the_module_is_printed_but_not_the_partial_graph(capfd):
    with pytest.raises(InputError, match="branches on the values"):
        exported_program("m", Talking(), (torch.ones(2, 4),))
    assert capfd.readouterr().err == "as the module says\n"


class Pair(NamedTuple):
    large: torch.Tensor
    small: torch.Tensor | None


@dataclass
class Found:
    scores: torch.Tensor
    loss: torch.Tensor | None = None


class Returning(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


RETURNED: dict[str, tuple[Callable[[torch.Tensor], Any], list[str]]] = {
    "a named tuple": (lambda x: Pair(x * 2, x), ["large", "small"]),
    "a named tuple in a tuple": (lambda x: (Pair(x * 2, None), x + 1), ["output_0_large", "output_1"]),
    "a dataclass": (lambda x: Found(x * 2), ["scores"]),
    "dataclasses in a list": (lambda x: [Found(x, x + 1), x], ["output_0_scores", "output_0_loss", "output_1"]),
    "PyTorch's tuple": (lambda x: x.max(1), ["output_0", "output_1"]),
    "None in a tuple": (lambda x: (x * 2, None), ["output_0"]),
    "None in a dict": (lambda x: {"loss": None, "scores": x * 2}, ["scores"]),
}


@pytest.mark.parametrize("name", RETURNED)
def test_named_tuples_and_dataclasses_are_returned_as_dicts(name: str, tmp_path: Path):
    function, names = RETURNED[name]
    module, example = Returning(function), torch.randn(2, 4)
    program = exported_program("m", module, (example,))
    assert [spec.name for spec in signature("m", program).outputs] == names
    torch.export.save(program, tmp_path / "m.pt2")
    assert type(module(example)) is type(function(example)), "the module returns what it did"


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: (), "forward() returns nothing"),
        (lambda x: None, "output 'output' is None, not a tensor"),
        (lambda x: Found(x, 3), "output 'loss' is 3, not a tensor"),
    ],
)
def test_outputs_that_are_not_tensors_are_named(function: Callable[[torch.Tensor], Any], problem: str):
    with pytest.raises(InputError) as refused:
        signature("m", exported_program("m", Returning(function), (torch.ones(2, 4),)))
    assert problem in refused.value.problem


def test_a_module_that_behaves_differently_during_export_is_refused():
    class Masked(nn.Module):
        def forward(self, x):
            return x.cumsum(1) if torch.compiler.is_compiling() else x.sum(1, keepdim=True) + x

    with pytest.raises(InputError, match="another network") as caught:
        exported_program("net", Masked(), (torch.ones(2, 3),))
    assert "is_compiling" in caught.value.remedy


def test_counters_and_random_numbers_are_accepted_and_buffers_restored():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            return x + torch.rand(3), x * self.calls

    module = Counting()
    exported_program("net", module, (torch.ones(2, 3),))
    assert module.calls.item() == 0


def test_an_expanded_buffer_is_not_written():
    class Expanded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", torch.full((1, 3), torch.nan).expand(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.shift

    assert list(exported_program("net", Expanded(), (torch.ones(2, 3),)).graph_signature.buffers) == ["shift"]
