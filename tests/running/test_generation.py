"""Tokens that a language model's package generates, in Python and on the command line."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

import tvmake
from tests.decoders import CONTEXT, VOCABULARY, onnx_greedy, write_onnx_decoder
from tests.requirements import need_module
from tests.workflow.project import ROOT
from tvmake.artifact.language_model import language_model
from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.cli import run as command
from tvmake.errors import InputError

PROMPT, STEPS = [1, 15, 7], 32

STATE = {f"past_key_values.%d.{kind}": f"present.%d.{kind}" for kind in ("key", "value")}

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decoder")


@pytest.fixture(scope="module")
def package(directory: Path) -> tvmake.Package:
    file = directory / "decoder.onnx"
    write_onnx_decoder(file, has_positions=True)
    model = tvmake.load(
        file,
        state=STATE,
        values={"attention_mask": 1},
        dims={"batch_size": 1, "past_sequence_length": (0, CONTEXT - 1)},
    )
    return model.compile(output=directory / "tiny-llama.tar", shows_progress=False)


def test_greedy_tokens_are_those_of_the_original(package: tvmake.Package, directory: Path):
    expected = onnx_greedy(directory / "decoder.onnx", PROMPT, STEPS)
    assert len(set(expected)) > 3
    assert list(tvmake.generate(package, PROMPT, STEPS)) == expected
    assert list(tvmake.generate(package, PROMPT, STEPS)) == expected  # in a session of its own


def test_drawn_tokens_are_those_of_the_seed(package: tvmake.Package):
    def draw(seed: int, **options: float) -> list[int]:
        return list(tvmake.generate(package, PROMPT, STEPS, seed=seed, **options))

    assert draw(0, temperature=5.0) == draw(0, temperature=5.0) != draw(1, temperature=5.0)
    greedy = list(tvmake.generate(package, PROMPT, STEPS))
    assert draw(3, top_p=1e-6) == greedy
    assert draw(3, temperature=1e-3) == greedy


@pytest.mark.parametrize(
    ("ids", "steps", "problem"),
    [
        ([], 1, "has no tokens"),
        ([VOCABULARY], 1, f"has token {VOCABULARY}, and the package has tokens 0 to {VOCABULARY - 1}"),
        ([-1], 1, "has token -1"),
        ([1] * 3, CONTEXT, f"need room for {CONTEXT + 2} tokens, and the package has it for {CONTEXT}\n  generate at most 62 tokens"),
        ([1], 0, "steps: expected at least 1"),
    ],
)  # fmt: skip
def test_a_prompt_that_does_not_fit_is_refused(package: tvmake.Package, ids: list[int], steps: int, problem: str):
    with pytest.raises(InputError, match=problem):
        tvmake.generate(package, ids, steps)


def test_the_whole_context_can_be_filled(package: tvmake.Package):
    assert len(list(tvmake.generate(package, [1] * 3, CONTEXT - 2))) == CONTEXT - 2


def spec(name: str, *shape: int | str, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=dtype)


def signature(*inputs: TensorSpec, outputs: tuple[TensorSpec, ...] = (), has_state: bool = True) -> Signature:
    state = StateSpec(**spec("past", 1, "past", 4).model_dump(), next=spec("now", 1, "past + n", 4))
    outputs = outputs or (spec("logits", 1, 9),)
    return Signature(inputs=inputs, outputs=outputs, states=(state,) if has_state else (), bounds={"past": (0, 7)})


TOKENS = spec("ids", 1, "n", dtype="int64")


def test_the_parts_of_a_language_model_are_recognised():
    known = language_model(signature(TOKENS, spec("position_ids", 1, "n", dtype="int64")))
    assert (known.tokens.name, known.logits.name, known.vocabulary, known.context) == ("ids", "logits", 9, 8)
    assert {name: array.tolist() for name, array in known.inputs([4, 5], 3).items()} == {
        "ids": [[4, 5]],
        "position_ids": [[3, 4]],
    }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (signature(TOKENS, has_state=False), "keeps no states"),
        (signature(spec("x", 1, 4)), "no input takes tokens: 'x' float32"),
        (signature(TOKENS, spec("mask", 1, "n")), "takes another input for each token, 'mask'"),
        (signature(TOKENS, spec("types", 1, "n", dtype="int64")), "several inputs may be the one.*\n  name it: --token-input"),
        (signature(TOKENS.model_copy(update={"indices": (-5, 4)})), "no output has logits"),
        (signature(TOKENS, outputs=(spec("a", 1, 9), spec("b", 1, 5))), "several outputs may be the one that has logits"),
    ],
)  # fmt: skip
def test_a_package_of_another_network_is_refused(given: Signature, problem: str):
    with pytest.raises(InputError, match=problem):
        language_model(given)


def test_the_command_prints_the_tokens_and_the_rate(
    package: tvmake.Package, directory: Path, capfd: pytest.CaptureFixture[str]
):
    expected = onnx_greedy(directory / "decoder.onnx", PROMPT, 8)
    assert command(["run", str(package.file), "--prompt-ids", "1,15,7", "--steps", "8"]) == 0
    printed = capfd.readouterr().out
    assert printed.splitlines()[0] == " ".join(map(str, expected))
    assert re.search(r"3 tokens of prompt, first token after [\d.]+ ms, then [\d.e+]+ tokens/s", printed)
    assert command(["run", str(package.file), "--prompt-ids", "1,15,7", "--steps", "8", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["tokens"] == expected


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--prompt-ids", "1,x"], "expected numbers of tokens"),
        (["--prompt-ids", "1", "--prompt", "a"], "both are given"),
        (["--prompt-ids", "1", "--fill", "ones"], "--prompt-ids --fill: a prompt is the only input"),
        (["--prompt-ids", "1", "--device", "ssh:board"], "tokens are generated on this machine"),
        (["--temperature", "2"], "--temperature: needs a prompt"),
        (["--prompt", "a"], "tokenizer.json: no such file"),
        (["--prompt-ids", "1", "--token-input", "y"], "has no input 'y'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    package: tvmake.Package, options: list[str], problem: str, capfd: pytest.CaptureFixture[str]
):
    assert command(["run", str(package.file), *options]) != 0
    assert problem in capfd.readouterr().err


def test_a_text_is_read_and_written_by_the_tokenizer_beside_the_package(
    package: tvmake.Package, directory: Path, capfd: pytest.CaptureFixture[str]
):
    need_module("tokenizers", "pip install 'tvmake[tokenizers]'")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{number}": number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    text = " ".join(f"w{token}" for token in [*PROMPT, *onnx_greedy(directory / "decoder.onnx", PROMPT, 4)])
    assert command(["run", str(package.file), "--prompt", "w1 w15 w7", "--steps", "4"]) == 0
    assert text in capfd.readouterr().out
    tokenizer.add_tokens(["more"])
    tokenizer.save(str(directory / "large.json"))
    large = ["--prompt", "w1", "--tokenizer", str(directory / "large.json")]
    assert command(["run", str(package.file), *large]) == 1
    assert f"has {VOCABULARY + 1} tokens, and the network {VOCABULARY}" in capfd.readouterr().err
    (directory / "damaged.json").write_text("{")
    assert command(["run", str(package.file), "--prompt", "w1", "--tokenizer", str(directory / "damaged.json")]) == 1
    assert "is not a tokenizer, or damaged" in capfd.readouterr().err


def test_the_loop_in_the_guide_generates_the_same(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    write_onnx_decoder(directory / "plain.onnx")
    model = tvmake.load(directory / "plain.onnx", state=STATE, values={"attention_mask": 1}, dims={"batch_size": 1})
    model.compile(output=directory / "tiny-llama.tar", shows_progress=False)
    monkeypatch.chdir(directory)
    guide = (ROOT / "docs/guides/decoders.md").read_text(encoding="utf-8")
    [loop] = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    exec(loop.replace("27", "7"), {})
    printed = [int(line) for line in capfd.readouterr().out.split()]
    assert printed == onnx_greedy(directory / "plain.onnx", [1, 15, 7], 32)
    assert any(before != after for before, after in pairwise(printed))
