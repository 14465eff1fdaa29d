"""Keras models on Keras' PyTorch backend, against Keras."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.compiled import run_sequence
from tests.frontend.torch.running import outputs
from tests.patience import HANG_S
from tests.requirements import need_module
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.frontend.torch.importer import read
from tvmake.frontend.torch.program import weights_digest
from tvmake.frontend.torch.source import load_program

MODELS = """
import os; os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)

def save(name, inputs, outputs, *values):
    model = keras.Model(inputs, outputs)
    model.save(name)
    results = model(list(values) if len(values) > 1 else values[0], training=False)
    np.savez(name + ".npz", *values, *(keras.ops.convert_to_numpy(value) for value in (results if isinstance(results, list) else [results])))

image = keras.Input((16, 16, 3), name="image")
x = layers.Conv2D(8, 3, padding="same", activation="gelu")(image)
x = layers.SeparableConv2D(16, 3, strides=2, padding="same")(layers.BatchNormalization()(x))
x = layers.LayerNormalization()(layers.MaxPooling2D(3, strides=2, padding="same")(x))
x = layers.Dense(10, activation="softmax")(layers.Dropout(0.5)(layers.GlobalAveragePooling2D()(x)))
value = np.random.default_rng(0).standard_normal((1, 16, 16, 3)).astype("float32")
save("image.keras", image, x, value)
save("image.h5", image, x, value)

ids = keras.Input((None,), name="ids", dtype="int32")
x = layers.Dense(3)(layers.Bidirectional(layers.LSTM(8))(layers.Embedding(50, 16)(ids)))
save("text.keras", ids, x, np.arange(5, dtype="int32").reshape(1, 5))

steps = keras.Input((4, 3), name="steps")
save("gru.keras", steps, layers.GRU(4)(steps), np.ones((1, 4, 3), "float32"))

a, b = keras.Input((8,), name="a"), keras.Input((8,), name="b")
steps = keras.Input(batch_shape=(1, 5, 3), name="steps")
hidden = layers.LSTM(4, stateful=True, return_sequences=True)(steps)
model = keras.Model(steps, layers.GRU(4, stateful=True)(hidden))
model.save("stateful.keras")
values = np.random.default_rng(0).standard_normal((1000, 1, 5, 3)).astype("float32")
with torch.no_grad():
    results = [keras.ops.convert_to_numpy(model(value, training=False)) for value in values]
np.savez("stateful.keras.npz", values, results)

steps = keras.Input((4,), name="x")
save("lambda.keras", steps, layers.Lambda(lambda value: value * 2)(steps), np.ones((1, 4), "float32"))

@keras.saving.register_keras_serializable("mine")
class Doubled(layers.Dense):
    def call(self, x):
        return super().call(x) * 2

save("layers.keras", steps, Doubled(3)(steps), np.ones((1, 4), "float32"))

save("two.keras", [a, b], [a + b, layers.Dense(2)(a * b)], np.ones((1, 8), "float32"), np.full((1, 8), 2, "float32"))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models that Keras has saved, each with its inputs and outputs."""
    need_module("keras", "pip install 'tvmake[keras]'")
    directory = tmp_path_factory.mktemp("keras")
    subprocess.run([sys.executable, "-c", MODELS], cwd=directory, check=True, timeout=HANG_S, capture_output=True)
    return directory


def options(path: Path, shapes: dict[str, list[int | str]]) -> ImportOptions:
    specs = {name: InputSpec(shape=shape) for name, shape in shapes.items()}
    return ImportOptions(source=str(path), trusted=True, inputs=specs)


@pytest.mark.parametrize(
    ("name", "inputs", "shapes"),
    [
        ("image.keras", ["image"], {}),
        ("image.h5", ["image"], {}),
        ("text.keras", ["ids"], {"ids": [1, 5]}),
        ("two.keras", ["a", "b"], {}),
        ("lambda.keras", ["x"], {}),
    ],
)
def test_a_model_equals_keras(models: Path, name: str, inputs: list[str], shapes: dict[str, list[int | str]]):
    settings = options(models / name, shapes)
    imported = read(load_program(settings.source, settings), settings)
    assert [spec.name for spec in imported.signature.inputs] == inputs
    with np.load(models / f"{name}.npz") as stored:
        values = [stored[key] for key in stored.files]
    results = outputs(imported, *values[: len(inputs)])
    for result, expected in zip(results, values[len(inputs) :], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


def test_unused_state_is_not_part_of_the_weights(models: Path):
    given = options(models / "gru.keras", {})  # Keras draws its layer a new random state each time
    first, second = (weights_digest(load_program(given.source, given)) for _ in range(2))
    assert first == second


FACTORY = """
import keras

@keras.saving.register_keras_serializable("mine")
class Doubled(keras.layers.Dense):
    def call(self, x):
        return super().call(x) * 2

def build():
    return keras.saving.load_model("layers.keras")
"""


def test_custom_layers_are_named_and_load_in_a_factory(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=r"no 'Doubled' is registered(?s:.)*`source: module:function`"):
        load_program(str(models / "layers.keras"), options(models / "layers.keras", {}))
    (tmp_path / "doubling.py").write_text(FACTORY)
    monkeypatch.chdir(models)
    monkeypatch.syspath_prepend(tmp_path)
    given = ImportOptions(source="doubling:build", trusted=True)
    imported = read(load_program(given.source, given), given)
    assert [spec.name for spec in imported.signature.inputs] == ["x"]
    with np.load(models / "layers.keras.npz") as stored:
        [found] = outputs(imported, stored["arr_0"])
        np.testing.assert_allclose(found, stored["arr_1"], rtol=1e-4, atol=1e-6)


def test_a_dynamic_dimension_is_refused_with_a_remedy(models: Path):
    with pytest.raises(InputError, match="its input 'ids' has a dynamic dimension") as refused:
        load_program(str(models / "text.keras"), options(models / "text.keras", {}))
    assert "inputs: {ids: {shape: [1, 224]}}" in str(refused.value)


def test_states_of_layers_follow_keras(models: Path):
    file = models / "stateful.keras"
    imported = read(load_program(str(file), options(file, {})), options(file, {}))
    assert [state.shape for state in imported.signature.states] == [(1, 4)] * 3
    stored = np.load(models / "stateful.keras.npz")
    got = run_sequence(imported, ([value] for value in stored["arr_0"]))
    for number, ((output,), reference) in enumerate(zip(got, stored["arr_1"], strict=True)):
        np.testing.assert_allclose(output, reference, rtol=1e-5, atol=1e-6, err_msg=str(number))


def test_code_of_a_model_runs_only_if_trusted(models: Path):
    with pytest.raises(InputError, match="trusted: true"):
        load_program(str(models / "image.keras"), ImportOptions(source=str(models / "image.keras")))


def test_a_damaged_file_is_refused_in_one_line(models: Path, tmp_path: Path):
    (tmp_path / "m.keras").write_bytes((models / "image.keras").read_bytes()[:2000])
    with pytest.raises(InputError, match=r"m\.keras: Keras .* cannot load it"):
        load_program(str(tmp_path / "m.keras"), options(tmp_path / "m.keras", {}))
