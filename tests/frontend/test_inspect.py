"""Reading the declared inputs of many models."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tvmake.errors import InputError
from tvmake.frontend import inspect
from tvmake.frontend.inspect import inspect_sources
from tvmake.frontend.options import ImportOptions


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that are read, in order."""
    sources: list[str] = []
    isolated = inspect.isolated

    def record(work: Callable[[], bytes], where: str) -> bytes:
        sources.append(where)
        return isolated(work, where)

    monkeypatch.setattr(inspect, "isolated", record)
    return sources


def network(file: Path) -> str:
    text = '<ir_version: 8, opset_import: ["" : 17]> network (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), file)
    return str(file)


def test_each_distinct_source_is_read_once_whatever_the_shapes_of_its_inputs(tmp_path: Path, read: list[str]):
    first, second = network(tmp_path / "first.onnx"), network(tmp_path / "second.onnx")
    models = [
        ImportOptions(source=first),
        ImportOptions(source=second),
        ImportOptions(source=first, inputs={"x": {"shape": [2, 3]}}),
        ImportOptions(source=first, opset=18),
    ]
    inspect_one = inspect_sources(models)
    assert all(inspect_one(options).inputs[0].shape == ("n", 3) for options in models)
    assert read == [first, second, first]


def test_every_model_of_a_source_that_cannot_be_read_has_its_error(tmp_path: Path, read: list[str]):
    (tmp_path / "damaged.onnx").write_bytes(b"no model")
    models = [ImportOptions(source=str(tmp_path / "damaged.onnx"))] * 2
    inspect_one = inspect_sources(models)
    for options in models:
        with pytest.raises(InputError, match="not an ONNX model"):
            inspect_one(options)
    assert len(read) == 1
