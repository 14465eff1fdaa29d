import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, export

from tests.frontend.compiled import run_compiled
from tests.frontend.torch.running import Of, outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import importer as torch_export
from tvmake.frontend.torch import program as torch_program
from tvmake.ir.bounds import bounds_of


def options(**settings):
    return ImportOptions(source="net.pt2", **settings)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.GELU()
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class LastStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 1, bias=False),
            nn.Hardswish(),
        )

    def forward(self, x):
        y = self.body(x)
        return (y + y).flatten(1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, ids):
        return self.head(self.table(ids).mean(1))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(6, 6)

    def forward(self, a, b):
        h = self.trunk(a) + b
        return {"score": h.sum(-1), "parts": (h, h.argmax(-1))}


def uniform(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 2 - 1


def ids(*shape):
    return torch.randint(0, 40, shape, generator=torch.Generator().manual_seed(1))


BATCH = Dim("batch", max=64)
NETWORKS = {
    "conv_net": (ConvNet, (uniform(2, 3, 16, 16),), None),
    "lstm_last_step": (LastStep, (uniform(2, 7, 4),), None),
    "transformer_encoder": (Encoder, (uniform(1, 5, 16),), None),
    "depthwise": (Depthwise, (uniform(1, 3, 16, 16),), None),
    "embedding_mean": (Words, (ids(3, 6),), None),
    "several_outputs": (Heads, (uniform(3, 6), uniform(3, 6)), None),
    "dynamic_batch": (ConvNet, (uniform(2, 3, 16, 16),), {"x": {0: BATCH}}),
}


def exported(name):
    torch.manual_seed(0)
    network, inputs, dynamic = NETWORKS[name]
    return export(network().eval(), inputs, dynamic_shapes=dynamic), inputs


@pytest.mark.parametrize("name", NETWORKS)
def test_an_imported_network_equals_pytorch(name):
    program, inputs = exported(name)
    model = torch_export.read(program, options())
    if name == "dynamic_batch":
        inputs = (uniform(5, 3, 16, 16),)
    expected = torch_program.run(program, inputs)
    outputs = run_compiled(model, [tensor.numpy() for tensor in inputs])
    for spec, output, reference in zip(model.signature.outputs, outputs, expected, strict=True):
        assert spec.dtype == str(output.dtype)
        assert [wanted for wanted in spec.shape if isinstance(wanted, int)] == [
            extent for extent, wanted in zip(output.shape, spec.shape, strict=True) if isinstance(wanted, int)
        ]
        np.testing.assert_allclose(output, reference.numpy(), rtol=1e-4, atol=1e-5)


def test_inputs_and_outputs_keep_the_names_of_the_python_code():
    program, _ = exported("several_outputs")
    signature = torch_export.read(program, options()).signature
    assert [(spec.name, spec.shape) for spec in signature.inputs] == [("a", (3, 6)), ("b", (3, 6))]
    assert [(spec.name, spec.dtype) for spec in signature.outputs] == [
        ("score", "float32"),
        ("parts_0", "float32"),
        ("parts_1", "int64"),
    ]


def test_weights_and_statistics_are_parameters():
    program, _ = exported("conv_net")
    model = torch_export.read(program, options())
    assert sum(int(np.prod(value.shape)) for value in model.params.values()) >= sum(
        tensor.numel() for tensor in program.parameters()
    )
    assert "params" not in (model.module["main"].attrs or {})


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(1000))

    def forward(self, x):
        return x + self.used


def test_unused_weights_are_dropped():
    model = torch_export.read(export(Unused().eval(), (uniform(3),)), options())
    assert list(model.params) == ["p_used"]
    np.testing.assert_array_equal(run_compiled(model, [np.zeros(3, "float32")])[0], np.ones(3, "float32"))


def test_an_index_input_is_bounded_by_the_rows_of_its_table():
    program, _ = exported("embedding_mean")
    spec = torch_export.read(program, options()).signature.inputs[0]
    assert spec.range == spec.indices == (0, 39)


def test_an_index_in_a_tensor_of_one_element_is_looked_up():
    class Looked(nn.Module):
        def forward(self, t: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x[t], x[:, t] * x[t, 1], x[t][None].expand(2, 6)

    example = torch.tensor(-2), torch.arange(24.0).reshape(4, 6)
    program = torch.export.export(Looked(), example)
    imported = torch_export.read(program, options())
    assert imported.signature.inputs[0].range == (0, 3)
    assert imported.signature.inputs[0].indices == (-4, 3)
    found = outputs(imported, *(one.numpy() for one in example))
    for one, other in zip(found, Looked()(*example), strict=True):
        np.testing.assert_array_equal(one, other.numpy())


def test_a_stated_range_replaces_the_derived_one():
    program, _ = exported("embedding_mean")
    signature = torch_export.read(program, options(inputs={"ids": {"range": [0, 7]}})).signature
    assert signature.inputs[0].range == (0, 7)


def test_a_configured_shape_fixes_a_dynamic_dimension():
    program, _ = exported("dynamic_batch")
    model = torch_export.read(program, options(inputs={"x": {"shape": [4, 3, 16, 16]}}))
    assert model.signature.inputs[0].shape == (4, 3, 16, 16)
    assert model.signature.outputs[0].shape == (4, 5)
    x = uniform(4, 3, 16, 16)
    np.testing.assert_allclose(
        run_compiled(model, [x.numpy()])[0], torch_program.run(program, [x])[0].numpy(), rtol=1e-4, atol=1e-5
    )


def test_a_configured_name_renames_a_dynamic_dimension():
    program, _ = exported("dynamic_batch")
    model = torch_export.read(program, options(inputs={"x": {"shape": ["images", 3, 16, 16]}}))
    assert model.signature.inputs[0].shape[0] == "images"
    assert model.signature.outputs[0].shape == ("images", 5)
    assert "images" in str(model.module["main"].params[0].ty)
    x = uniform(3, 3, 16, 16)
    np.testing.assert_allclose(
        run_compiled(model, [x.numpy()])[0], torch_program.run(program, [x])[0].numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("dimension", "bounds"),
    [
        (Dim("batch", min=1, max=8), (1, 8)),
        (Dim("batch", min=4), (4, None)),
        (Dim("batch", max=64), (0, 64)),
        (Dim.DYNAMIC, (1, None)),
        (Dim("batch"), None),
    ],
    ids=["both", "smallest", "largest", "neither 0 nor 1 was tried", "none"],
)
def test_bounds_stated_at_export_are_the_signatures_and_mains(dimension, bounds):
    program = export(nn.ReLU(), (torch.zeros(5, 4),), dynamic_shapes=({0: dimension},))
    imported = torch_export.read(program, options())
    (name, _) = imported.signature.inputs[0].shape
    assert imported.signature.bounds == bounds_of(imported.module) == ({name: bounds} if bounds else {})
    renamed = torch_export.read(program, options(inputs={"input": {"shape": ["N", 4]}}))
    assert renamed.signature.bounds == bounds_of(renamed.module) == ({"N": bounds} if bounds else {})
    fixed = torch_export.read(program, options(inputs={"input": {"shape": [6, 4]}}))
    assert not fixed.signature.bounds and not bounds_of(fixed.module)


class Pairs(nn.Module):
    def forward(self, x):
        return x.reshape(-1, 2).sum(1)


def test_a_dimension_that_is_a_multiple_stays_dynamic_and_is_checked():
    half = Dim("half", max=100)
    program = export(Pairs().eval(), (torch.zeros(6),), dynamic_shapes={"x": {0: 2 * half}})
    model = torch_export.read(program, options(inputs={"x": {"shape": ["length"]}}))
    assert model.signature.inputs[0].shape == ("length",)
    for length in (6, 10):
        x = np.arange(length, dtype="float32")
        np.testing.assert_array_equal(run_compiled(model, [x])[0], x.reshape(-1, 2).sum(1))
    assert "length is {0}, and the network takes multiples of 2" in str(model.module["main"].attrs)
    with pytest.raises(InputError, match=r"must be of the form 2\*.*; 7 is not"):
        torch_export.read(program, options(inputs={"x": {"shape": [7]}}))
    model = torch_export.read(program, options(inputs={"x": {"shape": [10]}}))
    assert model.signature.outputs[0].shape == (5,)
    x = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(run_compiled(model, [x])[0], x.reshape(-1, 2).sum(1))


class OneLevel(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(2, 2, 2, 2)

    def forward(self, image):
        return torch.cat([image, self.up(nn.functional.max_pool2d(image, 2))], 1)


def test_a_u_net_whose_sizes_pytorch_knows_to_be_equal_is_imported():
    net = OneLevel().eval()
    sizes = {2: Dim.AUTO, 3: Dim.AUTO}
    program = export(net, (torch.zeros(1, 2, 8, 12),), dynamic_shapes={"image": sizes})
    model = torch_export.read(program, options())
    for size in ((8, 12), (6, 4)):
        x = uniform(1, 2, *size)
        np.testing.assert_allclose(run_compiled(model, [x.numpy()])[0], net(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"xs": {}}, "no input 'xs'; did you mean 'x'"),
        ({"x": {"dtype": "float16"}}, "is float32, not float16"),
        ({"x": {"shape": [2, 3, 16]}}, "has 4 axes, not 3"),
        ({"x": {"shape": [2, 1, 16, 16]}}, "axis 1 of input 'x' is fixed to 3"),
        ({"x": {"shape": [65, 3, 16, 16]}}, "cannot be 65: the model was exported for 0 to 64"),
    ],
)
def test_inputs_that_contradict_the_model_are_refused(inputs, problem):
    program, _ = exported("dynamic_batch")
    with pytest.raises(InputError, match=problem) as caught:
        torch_export.read(program, options(inputs=inputs))
    if "65" not in problem:
        assert "x: float32 (" in caught.value.remedy


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)


@pytest.mark.parametrize(
    ("network", "found"), [(nn.BatchNorm1d(4), "batch_norm"), (Dropping(), "dropout"), (nn.RReLU(), "rrelu")]
)
def test_a_network_exported_in_training_mode_is_refused(network, found):
    program = export(network.train(), (uniform(3, 4),))
    with pytest.raises(InputError, match=f"training mode: {found} \\(1×\\)") as caught:
        torch_export.read(program, options())
    assert ".eval()" in caught.value.remedy


class Overwriting(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def test_a_network_that_changes_its_input_is_refused():
    with pytest.raises(InputError, match="in place: x") as caught:
        torch_export.read(export(Overwriting().eval(), (uniform(1, 4),)), options())
    assert "`state: {x: x}`" in caught.value.remedy
    assert "x = x.clone()" in caught.value.remedy


class Watching(nn.Module):
    """Stores the number of calls and the mean of inputs; no output depends on either."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("scale", torch.full((4,), 3.0))

    def forward(self, x):
        self.calls += 1
        self.mean.copy_(self.mean * 0.9 + x.mean(0) / self.calls)
        return x * self.scale


def test_state_without_effect_on_outputs_is_dropped():
    x = uniform(2, 4)
    imported = torch_export.read(export(Watching().eval(), (x,)), options())
    np.testing.assert_array_equal(run_compiled(imported, [x.numpy()])[0], (x * 3).numpy())
    assert [spec.name for spec in imported.signature.outputs] == ["output"]


class Float8(nn.Module):
    """A layer after torchao's Float8WeightOnlyConfig."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 4).to(torch.float8_e4m3fn), requires_grad=False)

    def forward(self, x):
        return x @ self.weight.to(torch.float32)


def test_8_bit_floats_are_refused_with_an_alternative():
    with pytest.raises(InputError, match=r"contains float8_e4m3fn \(as 'weight'\)") as caught:
        torch_export.read(export(Float8().eval(), (torch.zeros(2, 4),)), options())
    assert "int8_weights" in caught.value.remedy


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused_with_an_alternative(dtype):
    program = export(nn.Conv2d(3, 4, 3).to(dtype).eval(), (uniform(1, 3, 8, 8).to(dtype),))
    with pytest.raises(InputError, match="half precision") as caught:
        torch_export.read(program, options())
    assert "precisions: [float16]" in caught.value.remedy


class Unsupported(nn.Module):
    def forward(self, x):
        return torch.special.bessel_y1(x) + torch.special.bessel_y0(x).sum() + torch.special.bessel_y0(x * 2).sum()


def test_all_unsupported_operators_are_listed_with_their_counts():
    with pytest.raises(InputError) as caught:
        torch_export.read(export(Unsupported().eval(), (uniform(4),)), options())
    assert caught.value.problem.endswith("aten.special_bessel_y0.default (2×), aten.special_bessel_y1.default (1×)")
    assert caught.value.problem.startswith("2 operators have no importer")


ABSENT = {
    "singular values": (torch.linalg.svdvals, "iterated until they converge"),
    "eigenvalues": (lambda x: torch.linalg.eigh(x @ x.mT)[0], "iterated until they converge"),
    "a pseudoinverse": (torch.linalg.pinv, "iterated until they converge"),
    "orthogonal factors": (lambda x: torch.linalg.qr(x)[0], "no such factorisation"),
    "triangular factors": (lambda x: torch.linalg.lu(x)[1], "no such factorisation"),
    "an exponential of matrices": (torch.linalg.matrix_exp, "no such factorisation"),
    "gamma": (torch.lgamma, "special function"),
    "digamma": (torch.digamma, "special function"),
    "its second derivative": (lambda x: torch.polygamma(2, x), "special function"),
    "zeta": (lambda x: torch.special.zeta(x, 2.0), "special function"),
    "Bessel": (torch.special.i0e, "special function"),
    "mantissas": (lambda x: torch.frexp(x)[0], "no such operator"),
    "divisors": (lambda x: torch.gcd(x.int(), x.int().T), "no such operator"),
    "the most frequent value": (lambda x: torch.mode(x)[0], "no such operator"),
    "a histogram": (lambda x: torch.histc(x, 4, -2, 2), "no such operator"),
    "gradients of convolutions": (
        lambda x: torch.ops.aten.convolution_backward(
            x[None, None], x[None, None], x[None, None, :1, :1], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False]
        )[0],
        "gradients of convolutions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ABSENT)
def test_rare_operators_are_refused_with_the_reason(name):
    function, reason = ABSENT[name]
    with pytest.raises(InputError, match="no importer in TVM") as caught:
        torch_export.read(export(Of(function).eval(), (uniform(4, 4),)), options())
    assert reason in caught.value.remedy


def test_constants_may_have_any_operator():
    weight = uniform(4, 4)
    imported = torch_export.read(
        export(Of(lambda x: x @ torch.linalg.qr(weight)[0]).eval(), (uniform(2, 4),)), options()
    )
    assert imported.signature.outputs[0].shape == (2, 4)


class WithNumber(nn.Module):
    def forward(self, x, scale: int):
        return x * scale


def test_an_input_that_is_not_a_tensor_is_refused():
    with pytest.raises(InputError, match="input 'scale' is a Python int"):
        torch_export.read(export(WithNumber().eval(), (uniform(4), 3)), options())


class Complex(nn.Module):
    def forward(self, x):
        return torch.complex(x, x)


def test_complex_outputs_are_refused_with_an_alternative():
    with pytest.raises(InputError, match=r"(?s)complex64, which TVM lacks.*view_as_real"):
        torch_export.read(export(Complex().eval(), (uniform(4),)), options())


def test_a_module_with_a_keyword_as_its_name_is_refused():
    network = nn.ModuleDict({"class": nn.Linear(4, 4)})
    network.forward = lambda x: network["class"](x)
    with pytest.raises(InputError, match=r"'class\.(weight|bias)' has 'class' in its name"):
        torch_export.read(export(network.eval(), (uniform(4),)), options())


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", torch.eye(3).to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.matrix, x)


def test_a_sparse_buffer_is_refused():
    with pytest.raises(InputError, match=r"(?s)'matrix' is a sparse tensor.*to_dense"):
        torch_export.read(export(Sparse().eval(), (uniform(3, 2),)), options())


class Choosing(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Unique(nn.Module):
    def forward(self, x):
        return torch.unique(x)


@pytest.mark.parametrize(
    ("network", "operator", "remedy"),
    [(Choosing, "aten.index.Tensor", r"torch\.where\(mask"), (Unique, "aten._unique2.default", "count them after")],
)
def test_a_shape_that_depends_on_the_data_is_refused(network, operator, remedy):
    with pytest.raises(InputError, match=rf"(?s){operator} returns depends on the data.*{remedy}"):
        torch_export.read(export(network().eval(), (uniform(8),)), options())


class Nested(nn.Module):
    def forward(self, pair, *, scale):
        return pair["a"] * scale - pair["b"]


def test_nested_and_keyword_inputs_become_flat_ones():
    program = export(Nested().eval(), ({"a": uniform(3), "b": uniform(3) * 2},), {"scale": torch.tensor([2.0])})
    model = torch_export.read(program, options())
    assert [spec.name for spec in model.signature.inputs] == ["pair_a", "pair_b", "scale"]
    values = [uniform(3) + 1, uniform(3), torch.tensor([3.0])]
    reference = torch_program.run(program, values)[0]
    np.testing.assert_allclose(run_compiled(model, [v.numpy() for v in values])[0], reference.numpy(), rtol=1e-6)


def test_two_imports_give_the_same_bytes():
    import tvm

    program, _ = exported("conv_net")
    first, second = (torch_export.read(program, options()) for _ in range(2))
    assert tvm.ir.save_json(first.module) == tvm.ir.save_json(second.module)
    assert list(first.params) == list(second.params)


class LastRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(x[:, slice(-1, None), :])


def test_a_dimension_with_a_name_of_the_config_is_the_same_in_checks_of_sizes():
    from tvm import relax

    program = export(LastRows().eval(), (uniform(1, 5, 8),), dynamic_shapes={"x": {1: Dim("rows", min=1)}})
    model = torch_export.read(program, options(inputs={"x": {"shape": [1, "length", 8]}}))
    assert not relax.analysis.free_symbolic_vars(model.module["main"])
    assert {str(var.name) for var in relax.analysis.defined_symbolic_vars(model.module["main"])} == {"length"}
