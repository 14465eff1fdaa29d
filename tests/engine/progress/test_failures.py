"""The output for a failed job has the position of the config key in the error."""

from pathlib import Path

from tvmake.config.reading.load import naming
from tvmake.config.reading.notation import Notation
from tvmake.engine.progress.failures import with_positions

NOTATION = Notation("options", "n", options={"targets.mod": "target"})

FAILURE = "  error: targets.bad.mcpu: LLVM knows no CPU 'foo'\n    known: skylake"


def test_an_error_about_a_key_is_shown_with_its_file_and_line(tmp_path: Path):
    config = tmp_path / "tvmake.yaml"
    config.write_text("models: {n: {source: n.onnx}}\ntargets:\n  bad: {kind: llvm, mcpu: foo}\n")
    placed = with_positions(FAILURE, naming([config], None))
    assert placed == FAILURE.replace("targets.bad", f"{config}:3: targets.bad")


def test_an_error_about_what_an_option_gave_is_shown_with_the_option():
    placed = with_positions(FAILURE, naming([], Notation("options", "n", options={"targets.bad": "target"})))
    assert placed == "  error: target: LLVM knows no CPU 'foo'\n    known: skylake"


def test_other_errors_are_unchanged(tmp_path: Path):
    for text in ("  error: mod.so: linking with g++ failed", "  error: it ended without a message", "  done"):
        assert with_positions(text, naming([tmp_path / "none.yaml"], NOTATION)) == text
