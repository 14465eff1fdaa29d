"""A module becomes a program, or one line says why not."""

import pytest
import torch
from torch import nn

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting import exported_program


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


def test_each_part_has_its_own_mode_again():
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
def test_examples_that_the_module_does_not_take_are_the_cause(examples, cause, capfd):
    module = Steps()
    with pytest.raises(InputError, match=f"^steps: it cannot be called with its example inputs: {cause}") as caught:
        exported_program("steps", module, examples)
    assert "forward() takes" in caught.value.remedy
    assert module.training and "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (Branches(), r"another way for other values of its tensors \(.*test_exporting.py:\d+\)"),
        (Untraceable(), "torch.export cannot trace it"),
        (torch.jit.script(Branches()), "it is a TorchScript module"),
        (torch.ao.nn.quantized.Linear(4, 3), r"quantised as torch.export cannot trace them: Linear \(1×\)"),
    ],
)
def test_what_cannot_be_traced_is_said_in_one_line(module, problem):
    with pytest.raises(InputError, match=problem) as caught:
        exported_program("net", module, (torch.ones(2, 4),))
    assert "\n" not in caught.value.problem and caught.value.remedy
