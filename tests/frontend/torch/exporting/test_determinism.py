"""A module whose outputs depend on earlier calls is refused, because a package would repeat the first call."""

import copy
from collections import deque
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.export import exported_program


class Stateful(nn.Module):
    """Stores state in attributes, by a function."""

    def __init__(self, step):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.state = torch.zeros(1, 3)
        self.past = []
        self.window = deque(maxlen=2)
        self.cache = SimpleNamespace(keys={})
        self.calls = 0
        self.step = step

    def forward(self, x):
        return self.step(self, self.layer(x))


class Wrapper(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.encoder = part

    def forward(self, x):
        return {"y": self.encoder(x) * 2}


def state(self, x):
    self.state = 0.9 * self.state + x
    return self.state


def past(self, x):
    self.past.append(x)
    return torch.stack(self.past).sum(0)


def window(self, x):
    self.window.append(x)
    return torch.stack(list(self.window)).mean(0)


def cache(self, x):
    self.cache.keys["last"] = x + self.cache.keys.get("last", 0)
    return self.cache.keys["last"]


def counter(self, x):
    self.calls += 1
    return x / self.calls


NAMES = {state: "state", past: "past", window: "window", cache: "cache", counter: "calls"}


@pytest.mark.parametrize("step", NAMES, ids=lambda step: step.__name__)
def test_the_stored_attribute_is_named(step):
    with pytest.raises(InputError, match=f"forward\\(\\) stores {NAMES[step]} in the module") as refusal:
        exported_program("m", Stateful(step).eval(), [torch.ones(1, 3)])
    assert f"self.register_buffer('{NAMES[step]}', …)" in refusal.value.remedy


def test_the_attribute_of_a_submodule_is_named_by_its_path():
    with pytest.raises(InputError, match=r"stores encoder\.state in the module"):
        exported_program("m", Wrapper(Stateful(state)).eval(), [torch.ones(1, 3)])


def in_place(self, x):
    self.state.add_(x)
    self.window[0].add_(1)
    return self.state.tanh() + self.window[0]


def test_a_tensor_that_is_changed_in_place_is_state_and_keeps_its_value():
    module = Stateful(in_place).eval()
    module.window.append(torch.zeros(1))
    program = exported_program("m", module, [torch.ones(1, 3)])
    assert not module.state.any()
    assert not module.window[0].any()
    run, x = copy.deepcopy(program.module()), torch.randn(1, 3)
    with torch.no_grad():
        for _ in range(3):
            assert torch.allclose(run(x), module(x))


def table(self, x):
    if not hasattr(self, "table"):
        self.table = torch.arange(3.0).expand(1, 3)
    return x + self.table


def listed(self, x):
    if not self.past:
        self.past.append(torch.arange(3.0).expand(1, 3))
    return x + self.past[0]


def counted_only(self, x):
    self.calls += 1
    return x + 1


def last_output(self, x):
    self.state = x
    return x * 2


@pytest.mark.parametrize("step", [table, listed, counted_only, last_output], ids=lambda step: step.__name__)
def test_state_without_effect_on_outputs_is_accepted(step):
    module = Stateful(step).eval()
    program = exported_program("m", module, [torch.ones(1, 3)])
    x = torch.randn(1, 3)
    assert torch.allclose(program.module()(x), Stateful.forward(module, x))


def test_random_numbers_are_not_state():
    def noisy(self, x):
        self.state = x
        return x + torch.rand(1, 3)

    exported_program("m", Stateful(noisy).eval(), [torch.ones(1, 3)])
