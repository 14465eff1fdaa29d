"""Networks of several files in one package: an encoder with a decoder, and a transducer with its joiner, driven as a program would."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tvmake
from tests.encoder_decoders import (
    BLANK,
    CHANNELS,
    FEATURES,
    features,
    whisper_greedy,
    write_transducer,
    write_whisper,
)
from tests.requirements import need_module
from tests.workflow.project import Project
from tvmake.errors import InputError
from tvmake.running.session import Session

pytestmark = pytest.mark.long

PROMPT, STEPS = [1, 2, 3], 40
QUICK = {
    "validation": {"samples": 4},
    "export": {"self_test": False},
    "benchmark": {"repeat": 3, "warmup": 1, "baseline": False},
}
Run = Callable[..., dict[str, np.ndarray]]


def make(directory: Path, files: list[str], **changes: object) -> tvmake.Package:
    """The package that `tvmake init` and `tvmake make` build of files."""
    project = Project(directory)
    done = project.run("tvmake", "init", *files)
    assert done.returncode == 0, done.stderr
    for key, value in {**QUICK, **changes}.items():
        project.edit(key, value)
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = directory.glob("results/*/float32/cpu/joined.json")
    return tvmake.open(package.with_name("package.tar"))


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("bounds", [None, {"min": 0, "max": 62}], ids=["concatenated", "in place"])
def test_a_session_encodes_once_and_decodes_as_transformers_does(tmp_path: Path, bounds: dict[str, int] | None):
    need_module("transformers", "pip install 'tvmake[transformers]'")
    directory = tmp_path / "speech"
    directory.mkdir()
    write_whisper(directory)
    dims = (
        {"models.speech.functions.decoder_with_past.dims": {"past_decoder_sequence_length": bounds}} if bounds else {}
    )
    files = ["decoder_with_past_model.onnx", "decoder_model.onnx", "encoder_model.onnx"]
    package = make(directory, files, **dims)
    expected = whisper_greedy(PROMPT, STEPS)
    assert len(set(expected)) > 5

    def decode(session: Session) -> list[int]:
        session["encoder"].run(features())
        logits = session["decoder"].run(input_ids=np.array([PROMPT]))["logits"]
        tokens = [int(logits[0, -1].argmax())]
        while len(tokens) < STEPS:
            logits = session["decoder_with_past"].run(input_ids=np.array([tokens[-1:]]))["logits"]
            tokens.append(int(logits[0, -1].argmax()))
        return tokens

    session = package.session()
    assert decode(session) == expected
    assert decode(session) == expected  # the prompt begins a new text
    other = package.session()
    with pytest.raises(InputError, match="an output of the function 'decoder'"):
        other["decoder_with_past"].run(input_ids=np.array([[5]]))
    other.restore(session.snapshot())
    results = [each["decoder_with_past"].run(input_ids=np.array([[5]]))["logits"] for each in (session, other)]
    np.testing.assert_array_equal(*results)


def transducer_tokens(encode: Run, predict: Run, join: Run) -> list[int]:
    """The tokens that a greedy search finds in a stream of features."""
    random, tokens = np.random.default_rng(1), []
    predicted = predict(y=np.array([[BLANK]]))["decoder_out"][:, 0]
    for _ in range(10):
        chunk = 3 * random.standard_normal((1, 4, FEATURES)).astype("float32")
        for frame in encode(x=chunk)["encoder_out"][0]:
            token = int(join(encoder_out=frame[None], decoder_out=predicted)["logit"].argmax())
            if token != BLANK:
                tokens.append(token)
                predicted = predict(y=np.array([[token]]))["decoder_out"][:, 0]
    return tokens


def onnx_run(file: Path) -> Run:
    """A network in ONNX Runtime, with its states fed back."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = {entry.name for entry in session.get_inputs()} & {"h", "c"}
    states = {name: np.zeros((1, 1, CHANNELS), "float32") for name in names}

    def run(**inputs: np.ndarray) -> dict[str, np.ndarray]:
        outputs = session.run(None, {**inputs, **states})
        results = dict(zip((entry.name for entry in session.get_outputs()), outputs, strict=True))
        states.update({name: results[f"{name}_next"] for name in states})
        return results

    return run


@pytest.mark.usefixtures("own_home")
def test_a_transducer_streams_as_in_onnx_runtime(tmp_path: Path):
    directory = tmp_path / "transducer"
    directory.mkdir()
    write_transducer(directory)
    names = ("encoder", "decoder", "joiner")
    session = make(directory, [f"{name}.onnx" for name in names]).session()
    expected = transducer_tokens(*(onnx_run(directory / f"{name}.onnx") for name in names))
    assert len(set(expected)) > 5
    assert transducer_tokens(*(session[name].run for name in names)) == expected
