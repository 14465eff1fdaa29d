"""A module that keeps something for its next call is refused, because a package would give what a first call gives, each time."""

from collections import deque
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.export import exported_program


class Keeping(nn.Module):
    """Keeps things in attributes, by the function that it is given."""

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


class Within(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.encoder = part

    def forward(self, x):
        return {"y": self.encoder(x) * 2}


def state(self, x):
    self.state = 0.9 * self.state + x
    return self.state


def in_place(self, x):
    self.state.add_(x)
    return self.state.tanh()


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


NAMES = {state: "state", in_place: "state", past: "past", window: "window", cache: "cache", counter: "calls"}


@pytest.mark.parametrize("step", NAMES, ids=lambda step: step.__name__)
def test_what_is_kept_is_named(step):
    with pytest.raises(InputError, match=f"forward\\(\\) keeps {NAMES[step]} in the module") as refusal:
        exported_program("m", Keeping(step).eval(), [torch.ones(1, 3)])
    assert refusal.value.remedy == "make what is kept an input and an output of forward()"


def test_what_a_part_keeps_is_named_by_its_place():
    with pytest.raises(InputError, match=r"keeps encoder\.state in the module"):
        exported_program("m", Within(Keeping(state)).eval(), [torch.ones(1, 3)])


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
def test_what_changes_no_output_is_the_modules_own_business(step):
    module = Keeping(step).eval()
    program = exported_program("m", module, [torch.ones(1, 3)])
    x = torch.randn(1, 3)
    assert torch.allclose(program.module()(x), Keeping.forward(module, x))


def test_random_numbers_are_no_state():
    def noisy(self, x):
        self.state = x
        return x + torch.rand(1, 3)

    exported_program("m", Keeping(noisy).eval(), [torch.ones(1, 3)])
