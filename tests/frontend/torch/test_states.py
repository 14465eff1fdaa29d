"""State that a program keeps itself becomes state of the package, and follows PyTorch's over a long sequence."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import export

from tests.frontend.compiled import run_sequence
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.states import declare_states
from tvmake.frontend.torch.importer import read
from tvmake.validate.reference import torch_program
from tvmake.validate.reference.run import reference_outputs

STEPS = 1000
WIDTH, CAPACITY = 4, 1024


class Gated(nn.Module):
    """A recurrent cell that assigns its buffer."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.register_buffer("hidden", torch.linspace(-1, 1, WIDTH).reshape(1, WIDTH))

    def forward(self, x):
        self.hidden = self.cell(x, self.hidden)
        return self.hidden * 2


class Cache(nn.Module):
    """A cache that is written at the index of a counter, and read as a whole."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.register_buffer("keys", torch.zeros(CAPACITY, WIDTH))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, x):
        self.write(self, x)
        self.count.add_(1)
        return self.keys.sum(0) / self.count


def index_copy(self, x):
    self.keys.index_copy_(0, self.count, x)


def indexed(self, x):
    self.keys[self.count] = x


def scattered(self, x):
    self.keys.scatter_(0, self.count.reshape(1, 1).expand(1, WIDTH), x)


class Line(nn.Module):
    """The last values of a signal, as a causal convolution keeps them."""

    def __init__(self, push):
        super().__init__()
        self.push = push
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 5)
        self.register_buffer("past", torch.full((1, WIDTH, 5), 0.5))

    def forward(self, x):
        self.push(self, x)
        return self.convolution(self.past)


def concatenated(self, x):
    self.past.copy_(torch.cat([self.past[..., 1:], x.reshape(1, WIDTH, 1)], -1))


def sliced(self, x):
    self.past[..., :-1].copy_(self.past[..., 1:].clone())
    self.past[..., -1] = x


def rolled(self, x):
    self.past = self.past.roll(-1, -1)
    self.past[..., -1:] = x.reshape(1, WIDTH, 1)


class Chained(nn.Module):
    """An output depends on a buffer through another one, in the next call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.zeros(()))
        self.register_buffer("second", torch.full((1,), -3.0))
        self.register_buffer("flag", torch.tensor(True))

    def forward(self, x):
        y = torch.where(self.flag, x + self.second, x - self.second)
        self.second.copy_(self.second + self.first)
        self.first.add_(1e-3)
        self.flag.logical_not_()
        return y


class Objects:
    """A cache object, as of transformers, that refers to buffers of the module and has a tensor of its own."""

    def __init__(self, keys):
        self.keys = keys
        self.count = torch.zeros(1, dtype=torch.int64)

    def update(self, x):
        self.keys.index_copy_(0, self.count, x)
        self.count.add_(1)
        return self.keys


class WithObjects(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(CAPACITY, WIDTH), persistent=False)
        self.cache = Objects(self.keys)

    def forward(self, x):
        return self.cache.update(x).sum(0) / self.cache.count


NETWORKS = {
    "assigned": Gated,
    "index_copy_": lambda: Cache(index_copy),
    "index_put_": lambda: Cache(indexed),
    "scatter_": lambda: Cache(scattered),
    "cat": lambda: Line(concatenated),
    "slices": lambda: Line(sliced),
    "roll": lambda: Line(rolled),
    "chained": Chained,
    "cache object": WithObjects,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_states_follow_pytorch(name, tmp_path):
    torch.manual_seed(0)
    file = tmp_path / "net.pt2"
    torch.export.save(export(NETWORKS[name]().eval(), (torch.zeros(1, WIDTH),)), file)
    options = ImportOptions(source=str(file))
    imported = read(torch.export.load(file), options)
    assert [spec.name for spec in imported.signature.inputs] == ["x"]
    samples = np.random.default_rng(0).standard_normal((STEPS, 1, WIDTH)).astype("float32")
    runtime = torch_program.open_model(str(file), options, imported.signature.of_source)
    expected = list(reference_outputs(runtime, imported.signature, ({"x": sample} for sample in samples), 600))
    for begin, end in ((0, 600), (600, STEPS)):
        got = run_sequence(imported, ([sample] for sample in samples[begin:end]))
        errors = [
            error(output, reference["output"]) for (output,), reference in zip(got, expected[begin:end], strict=True)
        ]
        assert max(errors) < 1e-5
        assert max(errors[-100:]) < 5 * max(1e-6, *errors[:100])


def error(output, reference):
    return np.abs(output - reference).max() / np.abs(reference).max()


class CacheOfCaller(nn.Module):
    """Writes to a cache that its caller passes."""

    def forward(self, x, cache, index):
        cache.index_copy_(0, index, x)
        return cache.cumsum(0)[index]


def test_an_input_in_place_is_a_state_if_the_config_says_so(tmp_path):
    file = tmp_path / "net.pt2"
    example = torch.zeros(1, WIDTH), torch.zeros(CAPACITY, WIDTH), torch.zeros(1, dtype=torch.int64)
    torch.export.save(export(CacheOfCaller(), example), file)
    options = ImportOptions(source=str(file), state={"cache": "cache"})
    imported = declare_states(read(torch.export.load(file), options), options.state, "net")
    signature = imported.signature
    assert [spec.name for spec in signature.inputs] == ["x", "index"]
    assert [spec.name for spec in signature.outputs] == ["output"]
    steps = np.random.default_rng(0).standard_normal((100, 1, WIDTH)).astype("float32")
    samples = [{"x": step, "index": np.array([number])} for number, step in enumerate(steps)]
    runtime = torch_program.open_model(str(file), options, signature.of_source)
    got = run_sequence(imported, (list(sample.values()) for sample in samples))
    for (output,), reference in zip(got, reference_outputs(runtime, signature, samples), strict=True):
        assert error(output, reference["output"]) < 1e-5


def test_states_of_the_config_follow_those_of_the_program():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.full((1, WIDTH), 2.0))

        def forward(self, h, x):
            self.total.add_(x)
            return h + x, h + self.total

    program = export(Both(), (torch.zeros(1, WIDTH), torch.zeros(1, WIDTH)))
    states = {"h": "output_0"}
    imported = declare_states(read(program, ImportOptions(source="net.pt2", state=states)), states, "net")
    assert [state.name for state in imported.signature.states] == ["total", "has_run", "h"]
    x = np.ones((1, WIDTH), "float32")
    outputs = [output for (output,) in run_sequence(imported, [[x]] * 3)]
    assert [value[0, 0] for value in outputs] == [3, 5, 7]


class SharedMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.zeros(2, WIDTH))
        self.register_buffer("row", self.whole[0])

    def forward(self, x):
        self.whole.add_(x)
        return self.row * 2


class WrittenParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, WIDTH), requires_grad=False)

    def forward(self, x):
        self.scale.add_(1)
        return self.scale * x


class ComplexState(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("phase", torch.ones(1, WIDTH, dtype=torch.complex64))

    def forward(self, x):
        self.phase.mul_(1j)
        return torch.view_as_real(self.phase) * x.unsqueeze(-1)


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (SharedMemory, "changes 'row' and 'whole', which share memory"),
        (WrittenParameter, "changes the module's parameters: scale"),
        (ComplexState, "complex numbers in b_phase"),
    ],
)
def test_state_that_cannot_be_kept_is_refused(network, problem):
    program = export(network().eval(), (torch.zeros(1, WIDTH),))
    with pytest.raises(InputError, match=problem):
        read(program, ImportOptions(source="net.pt2"))


def test_zeros_need_no_other_state():
    imported = read(export(Cache(index_copy), (torch.zeros(1, WIDTH),)), ImportOptions(source="net.pt2"))
    assert [state.name for state in imported.signature.states] == ["keys", "count"]


@pytest.mark.parametrize("write", [index_copy, indexed, scattered])
def test_a_counter_past_the_end_selects_the_last_row(write):
    network = Cache(write)
    network.count.fill_(10**9)
    imported = read(export(network, (torch.zeros(1, WIDTH),)), ImportOptions(source="net.pt2"))
    x = np.ones((1, WIDTH), "float32")
    assert len(list(run_sequence(imported, [[x]] * 3))) == 3
