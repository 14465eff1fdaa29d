"""Caches in buffers of full size: the same values as with copies, in every form, and never beyond the capacity."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmake
from tests.codegen.caches.decoders import DIMS, STATE, TOKENS, Decoder
from tests.requirements import need
from tvmake.errors import InputError

pytestmark = pytest.mark.usefixtures("own_home")

FORMS = {
    "layers": {},
    "stacked": {"is_stacked": True},
    "rows first": {"rows_first": True},
    "scaled keys": {"scales_keys": True},
}

COUNTS = [5, *[1] * 9, 3, *[1] * 6, 8, 1]
"""The numbers of new tokens of a sequence."""


def save(directory: Path, form: str) -> Path:
    file = directory / "decoder.onnx"
    onnx.save(Decoder(**FORMS[form]).model(), file)
    return file


def compile_decoder(file: Path, target: str = "native", **options: object) -> tvmake.Package:
    is_stacked = any(value.name == "k" for value in onnx.load(file).graph.input)
    state = {"k": "k_next", "v": "v_next"} if is_stacked else STATE
    return tvmake.load(file, state=state, dims=DIMS, **options).compile(target, shows_progress=False)


def sequence(counts: Sequence[int], seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(0, TOKENS, (1, count)) for count in counts]


class Source:
    """The network in ONNX Runtime, with its caches fed back."""

    def __init__(self, file: Path):
        self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.reset()

    def reset(self) -> None:
        self._states = {
            spec.name: np.zeros([0 if extent == "past" else extent for extent in spec.shape], "float32")
            for spec in self._session.get_inputs()[1:]
        }

    def run(self, ids: np.ndarray) -> np.ndarray:
        y, *states = self._session.run(None, {"ids": ids, **self._states})
        self._states = dict(zip(self._states, states, strict=True))
        return y


@pytest.fixture(scope="module", params=FORMS)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("decoder"), request.param)


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("layers"), "layers")


@pytest.fixture(scope="module")
def package(layers: Path) -> tvmake.Package:
    return compile_decoder(layers)


def names_of_kernels(package: tvmake.Package) -> set[str]:
    return {kernel.name.rstrip("0123456789") for kernel in package.manifest.kernels}


def test_a_decoder_gives_the_sources_values_and_copies_no_rows(file: Path):
    package, source = compile_decoder(file), Source(file)
    kernels = names_of_kernels(package)
    assert {"append_rows", "cache_matmul"} <= kernels
    assert not any("cache_rows" in name or "concat" in name for name in kernels)
    for _ in range(2):
        for ids in sequence(COUNTS):
            np.testing.assert_allclose(package.run(ids)["y"], source.run(ids), atol=1e-5)
        package.reset()
        source.reset()


def test_a_function_for_single_tokens_shares_buffers_with_the_others(layers: Path):
    package, source = compile_decoder(layers, shapes=[{"t": 1}]), Source(layers)
    for ids in sequence(COUNTS):
        np.testing.assert_allclose(package.run(ids)["y"], source.run(ids), atol=1e-5)


@pytest.mark.parametrize("target", ["opencl-generic"])
def test_a_decoder_is_right_on_an_opencl_device(layers: Path, target: str):
    need("PoCL")
    package, source = compile_decoder(layers, target), Source(layers)
    assert "append_rows" in names_of_kernels(package)
    for ids in sequence(COUNTS):
        np.testing.assert_allclose(package.run(ids)["y"], source.run(ids), atol=1e-4)


def test_interleaved_sessions_and_snapshots_are_the_same_bit_for_bit(package: tvmake.Package):
    alone = [[package.session().run(ids)["y"] for ids in sequence([3])] for _ in range(2)]
    assert np.array_equal(*[outputs[0] for outputs in alone])
    given = [sequence(COUNTS[:-1], seed) for seed in range(8)]
    expected = []
    for tokens in given:
        package.reset()
        expected.append([package.run(ids)["y"].copy() for ids in tokens])
    sessions = [package.session() for _ in range(8)]
    for step in range(len(COUNTS) - 1):
        for session, tokens, outputs in zip(sessions, given, expected, strict=True):
            if step == 9:
                snapshot = session.snapshot()
                session.run(tokens[step])
                session.restore(snapshot)
            assert np.array_equal(session.run(tokens[step])["y"], outputs[step])
    copy = package.session()
    copy.restore(sessions[0].snapshot())
    last = sequence([1], 99)[0]
    assert np.array_equal(copy.run(last)["y"], sessions[0].run(last)["y"])


def test_a_full_buffer_is_an_error_that_names_the_dimension_and_changes_nothing(package: tvmake.Package, layers: Path):
    session, source = package.session(), Source(layers)
    for ids in sequence([8] * 4):
        np.testing.assert_allclose(session.run(ids)["y"], source.run(ids), atol=1e-5)
    before = session.snapshot()
    with pytest.raises(InputError, match="past is 32; this package takes 0 to 31") as full:
        session.run(sequence([1])[0])
    assert "reset()" in str(full.value.remedy)
    assert session.snapshot() == before
    session.reset()
    source.reset()
    ids = sequence([4])[0]
    np.testing.assert_allclose(session.run(ids)["y"], source.run(ids), atol=1e-5)


def test_more_new_rows_than_there_is_space_for_are_refused(layers: Path):
    package = tvmake.load(layers, state=STATE, dims={"past": {"max": 9}}).compile(shows_progress=False)
    package.run(sequence([8])[0])
    before = package.snapshot()
    with pytest.raises(InputError, match=r"would have 11 rows .*, and have space for 10; `reset\(\)`"):
        package.run(sequence([3])[0])
    assert package.snapshot() == before
    package.run(sequence([2])[0])


def test_packages_pass_validation_at_other_precisions(layers: Path):
    source = tvmake.load(layers, state=STATE, dims=DIMS)
    for precision in ("float32", "float16", "int8_weights"):
        package = source.compile(precision=precision, shows_progress=False)
        assert "append_rows" in names_of_kernels(package), precision
        assert package.validate(source, samples=24).passed, precision


def test_without_a_maximum_a_cache_is_copied(layers: Path):
    package = tvmake.load(layers, state=STATE).compile(shows_progress=False)
    assert "append_rows" not in names_of_kernels(package)
    assert [state.name for state in package.states] == ["k0", "k1", "v0", "v1"]
