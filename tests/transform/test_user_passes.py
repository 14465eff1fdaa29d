"""User passes run at their points, in order, with their arguments; a mistake is reported in one line."""

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import tvm

from tests.codegen.conftest import static_net  # noqa: F401
from tests.transform.nets import IMAGE, calls, input_dtypes, operators, run, transformed
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.errors import InputError
from tvmake.frontend.model_files import python_file
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.options import BUILD_POINTS, TRANSFORM_POINTS, TransformRequest, UserPass
from tvmake.transform.user_passes import apply_user_passes, load_pass

ROOT = Path(__file__).resolve().parents[2]
QUANTIZE = "resources.passes.fake_quantize:quantize_weights"
HALF = PrecisionConfig(base="float16")

_numbers = itertools.count()


class UserModule:
    """A Python file in the working directory, as a user would write it."""

    def __init__(self, directory: Path, text: str):
        self.name = f"my_passes_{next(_numbers)}"
        self.file = directory / f"{self.name}.py"
        self.file.write_text(dedent(text))

    def line(self, containing: str) -> str:
        """``file.py:line`` of the first line with that text."""
        lines = self.file.read_text().splitlines()
        return f"{self.file.name}:{next(n for n, line in enumerate(lines, 1) if containing in line)}"

    def __getattr__(self, name: str):
        return getattr(importlib.import_module(self.name), name)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a module of passes into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda text: UserModule(tmp_path, text)


@pytest.fixture
def recorder(written) -> UserModule:
    """``record(name)`` notes the module it is given and the target at that moment."""
    return written("""
        import tvm

        seen = []

        def record(name="", extra=None):
            def rewrite(module):
                seen.append((name, extra, module, tvm.target.Target.current(allow_none=True)))
                return module
            return rewrite
        """)


def nothing_but(name: str, error: InputError) -> None:
    """The error is one line that names the pass."""
    assert error.where == f"pass {name}"
    assert "\n" not in error.problem
    assert "Traceback" not in str(error)


# --- where and how they run -------------------------------------------------------------------------------------------


def test_each_transform_point_shows_the_module_as_documented(recorder: UserModule):
    passes = [
        {"use": f"{recorder.name}:record", "at": point, "arguments": {"name": point}} for point in TRANSFORM_POINTS
    ]
    transformed(precision=HALF, layout="NHWC", passes=passes)
    assert [name for name, *_ in recorder.seen] == list(TRANSFORM_POINTS)
    start, before, after = (module for _, _, module, _ in recorder.seen)
    assert operators(start)["nn.batch_norm"] == 2
    assert operators(before)["nn.batch_norm"] == 0
    assert {str(call.attrs.data_layout) for call in calls(before, "nn.conv2d")} == {"NCHW"}
    assert {dtype for call in calls(before, "nn.conv2d") for dtype in input_dtypes(call)} == {"float32"}
    assert {str(call.attrs.data_layout) for call in calls(after, "nn.conv2d")} == {"NHWC"}
    assert {dtype for call in calls(after, "nn.conv2d") for dtype in input_dtypes(call)} == {"float16"}
    # Weights are constants throughout, so that a pass can read and change them.
    assert all(len(module["main"].params) == 1 for module in (start, before, after))


def test_each_build_point_shows_the_module_as_documented(recorder: UserModule):
    passes = [UserPass(use=f"{recorder.name}:record", at=point, arguments={"name": point}) for point in BUILD_POINTS]
    target = tvm.target.Target("llvm")
    lower(transformed()[0], target, passes, PassOptions())
    assert [name for name, *_ in recorder.seen] == list(BUILD_POINTS)
    assert [str(seen_target) for *_, seen_target in recorder.seen] == [str(target)] * 2
    relax, fused = (module for _, _, module, _ in recorder.seen)
    assert operators(relax)["nn.conv2d"] == 2
    assert not any(isinstance(function, tvm.tirx.PrimFunc) for function in relax.functions.values())
    assert set(operators(fused)) == {"call_tir"}
    assert any("conv2d_add_relu" in str(name.name_hint) for name in fused.functions)


def test_passes_at_one_point_run_in_their_order_with_their_arguments(recorder: UserModule):
    use = f"{recorder.name}:record"
    arguments = [{"name": "a"}, {"name": "b", "extra": {"depth": [1, 2]}}, {"name": "a"}]
    transformed(passes=[{"use": use, "arguments": given} for given in arguments])
    assert [(name, extra) for name, extra, *_ in recorder.seen] == [("a", None), ("b", {"depth": [1, 2]}), ("a", None)]


def test_a_pass_gets_what_the_one_before_returned(written):
    mine = written("""
        def add_attribute(name):
            return lambda module: module.with_attr(name, 1)

        def list_attributes(found=[]):
            def rewrite(module):
                found.extend(sorted(module.attrs.keys()))
                return module
            return rewrite
        """)
    module = tvm.IRModule()
    use = [("add_attribute", {"name": "one"}), ("add_attribute", {"name": "two"}), ("list_attributes", {})]
    passes = [UserPass(use=f"{mine.name}:{name}", arguments=given) for name, given in use]
    apply_user_passes(module, passes, "before_precision")
    assert mine.list_attributes.__defaults__ == (["one", "two"],)


def test_a_factory_of_an_installed_package_may_be_named_too():
    found = transformed(passes=["tvm.relax.transform:CanonicalizeBindings"])
    np.testing.assert_array_equal(run(found, IMAGE), run(transformed(), IMAGE))


def test_a_file_with_the_name_of_an_installed_module_is_neither_run_nor_taken_for_it(written, tmp_path: Path):
    (tmp_path / "colorsys.py").write_text("raise SystemExit('was run')\n")
    with pytest.raises(InputError, match=r"colorsys\.py has the name of another Python module") as caught:
        load_pass(UserPass(use="colorsys:own"))
    assert caught.value.remedy == "give the file another name"
    assert python_file("colorsys:own") == importlib.util.find_spec("colorsys").origin


def test_modules_of_the_working_directory_come_after_those_installed(written, tmp_path: Path):
    (tmp_path / "colorsys.py").write_text("raise SystemExit('was run')\n")
    mine = written("import colorsys\n\ndef own():\n    return colorsys.__file__ and (lambda module: module)\n")
    assert load_pass(UserPass(use=f"{mine.name}:own"))
    assert sys.path[-1] == str(tmp_path)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_an_unknown_module_is_reported_with_the_search_path(written):
    with pytest.raises(InputError, match="no module named 'my_pases'") as caught:
        load_pass(UserPass(use="my_pases:fuse"))
    nothing_but("my_pases:fuse", caught.value)
    assert "working directory" in caught.value.remedy


def test_an_unknown_function_is_reported_with_the_known_ones(written):
    mine = written("from math import sqrt\n\ndef fuse():\n    pass\n\ndef split():\n    pass\n")
    with pytest.raises(InputError, match="has no function 'fues'") as caught:
        load_pass(UserPass(use=f"{mine.name}:fues"))
    nothing_but(f"{mine.name}:fues", caught.value)
    assert mine.file.name in caught.value.problem
    assert caught.value.remedy == "it defines: fuse, split"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import math\nmath.wrong  # here\n", "AttributeError"),
        ("import a_library_nobody_has  # here\n", "ModuleNotFoundError: No module named 'a_library_nobody_has'"),
        ("def f(:  # here\n", "SyntaxError"),
        ("raise SystemExit(3)  # here\n", "SystemExit: 3"),
    ],
    ids=["attribute", "library", "syntax", "exit"],
)
def test_a_module_that_cannot_be_imported_is_reported_with_its_line(written, text: str, cause: str):
    mine = written(text)
    with pytest.raises(InputError, match=f"cannot be imported: {cause}") as caught:
        load_pass(UserPass(use=f"{mine.name}:f"))
    nothing_but(f"{mine.name}:f", caught.value)
    assert f"({mine.line('# here')})" in caught.value.problem


def test_a_factory_that_raises_is_reported_with_its_line(written):
    mine = written("""
        def check(bits):
            if bits > 8:
                raise ValueError("too many bits")  # here

        def factory(bits):
            check(bits)
        """)
    use = f"{mine.name}:factory"
    with pytest.raises(InputError, match="the factory failed with bits=9: ValueError: too many bits") as caught:
        load_pass(UserPass(use=use, arguments={"bits": 9}))
    nothing_but(use, caught.value)
    assert caught.value.problem.endswith(f"({mine.line('# here')})")


def test_unknown_arguments_of_a_factory_are_reported_with_its_line(written):
    mine = written("def factory(bits):\n    return lambda module: module\n")
    use = f"{mine.name}:factory"
    with pytest.raises(InputError, match="unexpected keyword argument 'bit'") as caught:
        load_pass(UserPass(use=use, arguments={"bit": 9}))
    nothing_but(use, caught.value)
    assert caught.value.problem.endswith(f"({mine.line('def factory')})")


def test_a_factory_that_returns_no_pass_is_reported_with_its_line(written):
    mine = written("def factory():\n    return 3\n")
    with pytest.raises(InputError, match="the factory returned a int") as caught:
        load_pass(UserPass(use=f"{mine.name}:factory"))
    nothing_but(f"{mine.name}:factory", caught.value)
    assert mine.line("def factory") in caught.value.problem


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ('raise RuntimeError("first\\nlast")', "RuntimeError: first"),
        ('tvm.relax.transform.BindSymbolicVars({"n": 1}, "nowhere")(module)', ""),
        ("raise SystemExit(3)", "(SystemExit|RuntimeError): 3"),  # TVM's function calls turn it into the latter
    ],
    ids=["python", "tvm", "exit"],
)
@pytest.mark.parametrize("kind", ["function", "module_pass"])
def test_a_pass_that_raises_is_reported_with_its_point_and_line(written, body: str, cause: str, kind: str):
    made = {
        "function": "return lambda module: work(module)",
        "module_pass": "return tvm.transform.module_pass(lambda module, _: work(module), opt_level=0, name='mine')",
    }[kind]
    mine = written(f"""
        import tvm

        def work(module):
            {body}  # here

        def factory():
            {made}
        """)
    use = f"{mine.name}:factory"
    with pytest.raises(InputError, match=f"failed at 'after_precision': .*{cause}") as caught:
        transformed(passes=[{"use": use, "at": "after_precision"}])
    nothing_but(use, caught.value)
    assert caught.value.problem.endswith(f"({mine.line('# here')})")


@pytest.mark.parametrize("returned", ["None", "module['main']", "42"])
def test_a_pass_that_returns_no_module_is_reported_with_its_line(written, returned: str):
    mine = written(f"""
        def factory():
            def rewrite(module):
                return {returned}
            return rewrite
        """)
    use = f"{mine.name}:factory"
    with pytest.raises(InputError, match=r"returned a \w+ .*, not an IRModule") as caught:
        transformed(passes=[use])
    nothing_but(use, caught.value)
    assert mine.line("def rewrite") in caught.value.problem


def test_the_line_is_found_wherever_the_project_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    directory = tmp_path / "tvmake" / "stdlib"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)
    mine = UserModule(directory, "def factory():\n    raise KeyError('k')  # here\n")
    with pytest.raises(InputError) as caught:
        load_pass(UserPass(use=f"{mine.name}:factory"))
    assert caught.value.problem.endswith(f"({mine.line('# here')})")


def test_the_command_line_prints_two_lines_and_no_traceback(static_net, tmp_path: Path):  # noqa: F811
    mine = UserModule(tmp_path, "def factory():\n    return lambda module: 1 / 0  # here\n")
    request = TransformRequest.model_validate({"transform": {"passes": [f"{mine.name}:factory"]}})
    beside = static_net.module.parent
    command = [str(Path(sys.executable).with_name("tvmake")), "step", "transform"]
    command += [str(beside / name) for name in ("model.json", "model.params", "signature.json")]
    command += [
        "--options",
        request.model_dump_json(),
        "--module",
        "m.json",
        "--params",
        "m.params",
        "--bound",
        "s.json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == (
        f"error: pass {mine.name}:factory: failed at 'before_precision': ZeroDivisionError: division by zero"
        f" ({mine.file.name}:2)"
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert not list(tmp_path.glob("m.*"))


# --- the example pass of docs/guides/passes.md -----------------------------------------------------------------------


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))


def weights(module: "tvm.IRModule") -> list[np.ndarray]:
    """The weights of convolutions and matrix products, in order, output channels first."""
    found = [call.args[1].value.numpy() for call in calls(module) if str(call.op.name).endswith(("conv2d", "matmul"))]
    return [value.T if value.ndim == 2 else value for value in found]


def quantized(recorder: UserModule, bits: int, **options) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights before and after the pass."""
    record = f"{recorder.name}:record"
    transformed(passes=[record, {"use": QUANTIZE, "arguments": {"bits": bits}}, record], **options)
    (_, _, before, _), (_, _, after, _) = recorder.seen
    assert operators(before) == operators(after)
    return weights(before), weights(after)


@pytest.fixture
def resources_found(recorder: UserModule, monkeypatch: pytest.MonkeyPatch) -> UserModule:
    """The recorder in the working directory, and the repository's root on the path."""
    sys.path.insert(0, str(ROOT))
    return recorder


@pytest.mark.parametrize("bits", [8, 6, 4, 2])
def test_quantized_weights_are_multiples_of_a_scale_per_output_channel(resources_found: UserModule, bits: int):
    before, after = quantized(resources_found, bits)
    assert [value.shape for value in after] == [(4, 3, 3, 3), (8, 4, 3, 3), (5, 8)]
    largest = 2 ** (bits - 1) - 1
    for exact, rounded in zip(before, after, strict=True):
        assert rounded.dtype == np.float32
        for channel, original in zip(rounded, exact, strict=True):
            scale = np.abs(original).max() / largest
            steps = channel / scale
            np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
            assert np.abs(steps).max() == pytest.approx(largest)
            assert np.abs(channel - original).max() <= scale / 2 * (1 + 1e-5)
        assert not np.array_equal(exact, rounded)


def test_fewer_bits_move_the_output_further_away(at_root):
    exact = run(transformed(), IMAGE)
    errors = [
        np.abs(run(transformed(passes=[{"use": QUANTIZE, "arguments": {"bits": bits}}]), IMAGE) - exact).max()
        for bits in (16, 8, 4)
    ]
    assert 0 < errors[0] < 1e-4 < errors[1] < errors[2]


def test_quantizing_twice_changes_nothing_more(at_root):
    use = {"use": QUANTIZE, "arguments": {"bits": 5}}
    once, twice = transformed(passes=[use])[1], transformed(passes=[use, use])[1]
    for name, value in once.items():
        np.testing.assert_allclose(twice[name].numpy(), value.numpy(), rtol=1e-6)


def test_computed_weights_and_channels_of_zeros_stay_unchanged(at_root):
    relax = tvm.relax
    x, w = relax.Var("x", relax.TensorType((2, 3), "float32")), relax.Var("w", relax.TensorType((3, 4), "float32"))
    zeros = np.zeros((4, 2), "float32")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, w))
            output = builder.emit_output(relax.op.matmul(product, relax.const(zeros)))
        builder.emit_func_output(output)
    rounded = load_pass(UserPass(use=QUANTIZE))(builder.get())
    first, second = calls(rounded, "matmul")
    assert isinstance(first.args[1], relax.Var)
    np.testing.assert_array_equal(second.args[1].value.numpy(), zeros)


def test_a_changed_example_pass_is_seen_by_the_plan(at_root):
    assert python_file(QUANTIZE) == "resources/passes/fake_quantize.py"


def test_an_invalid_number_of_bits_is_refused(at_root):
    with pytest.raises(InputError, match="bits is 1, not between 2 and 16") as caught:
        load_pass(UserPass(use=QUANTIZE, arguments={"bits": 1}))
    nothing_but(QUANTIZE, caught.value)
