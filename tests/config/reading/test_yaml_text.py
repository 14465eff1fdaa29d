"""Any content of a config file is read within limits or refused in one line, without hanging and without a traceback."""

import contextlib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tvmake.cli.configs import overlay
from tvmake.config.reading import yaml_text
from tvmake.config.reading.load import check, load, read_yaml
from tvmake.config.reading.yaml_text import DEEPEST, LARGEST_BYTES, parse
from tvmake.errors import InputError, TvmakeError, UsageError

LEVELS = range(1, 12)
BOMBS = {
    "lists": "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in LEVELS),
    "mappings": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(10))}}}\n" for i in LEVELS),
    "merges": "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in LEVELS),
    "chain": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 5000)),
    "flow": "a: " + "[" * 100_000 + "]" * 100_000,
    "unclosed": "a: " + "{b: " * 100_000,
    "blocks": "".join(" " * i + "a:\n" for i in range(1000)),
}
NUMBERS = ["9" * 5000, "9" * 4000, "-" + "9" * 100, "0x" + "f" * 100_000, "0b" + "1" * 100_000, "1" + ":59" * 3000]

documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
)


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_yaml(path, {})
    return caught.value


@pytest.mark.parametrize("name", BOMBS)
def test_text_that_expands_to_too_many_values_is_refused_with_its_line(name: str, tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text(BOMBS[name])
    error = refusal(file)
    assert error.where.startswith(f"{file}:") and ("nested" in error.problem or "expands to" in error.problem)


@pytest.mark.parametrize("content", [b"# " + b"x" * 50_000_000, "é".encode() * LARGEST_BYTES])
def test_a_file_beyond_the_size_limit_is_not_read(content: bytes, tmp_path: Path):
    (tmp_path / "c.yaml").write_bytes(content)
    assert "larger than 4 MiB" in refusal(tmp_path / "c.yaml").problem


def test_an_endless_file_is_refused():
    assert refusal(Path("/dev/zero")).problem == "cannot be read: it is a device, not a file"


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_of_thousands_of_digits_is_refused_with_its_line(number: str, tmp_path: Path):
    (tmp_path / "c.yaml").write_text(f"models: {{n: {{source: n.onnx}}}}\nbenchmark: {{repeat: {number}}}\n")
    error = refusal(tmp_path / "c.yaml")
    assert error.where.endswith("c.yaml:2") and len(error.problem) < 200


@pytest.mark.parametrize(
    "text",
    ["2026-99-99", "2026-01-01 25:61:61", "!!int x", "!!float y", "!!binary x", "!!timestamp z", "!!bool x", "!!set 1"],
)
def test_a_text_that_is_invalid_for_its_type_is_refused(text: str, tmp_path: Path):
    (tmp_path / "c.yaml").write_text(f"a: {text}\n")
    assert refusal(tmp_path / "c.yaml").problem.startswith("not valid YAML")


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes):
    (tmp_path / "c.yaml").write_bytes(content)
    try:
        load([tmp_path / "c.yaml"])
    except TvmakeError as error:
        assert "\n\n" not in str(error)


@given(st.text("[]{}:,&*a1- \n\"'<|>!?#%@`\t", max_size=60))
def test_any_text_of_yamls_own_characters_is_read_or_refused(tmp_path: Path, text: str):
    (tmp_path / "c.yaml").write_text(text)
    with contextlib.suppress(TvmakeError):
        load([tmp_path / "c.yaml"])


@given(documents)
def test_common_documents_are_read_like_pyyaml(document: object):
    text = yaml.safe_dump(document)
    assert parse(text).values() == yaml.safe_load(text)


@pytest.mark.parametrize("base", ["CSafeLoader", "SafeLoader"])
def test_the_limits_hold_with_and_without_the_library_in_c(base: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(yaml_text, "_Loader", type("Loader", (getattr(yaml, base),), {}))
    for name in ("lists", "chain", "flow"):
        with pytest.raises(yaml.YAMLError):
            parse(BOMBS[name])
    assert parse("a: [1, &x {b: c}, *x]").values() == {"a": [1, {"b": "c"}, {"b": "c"}]}


@pytest.mark.parametrize(
    "setting",
    [f"a={'[' * 5000}", f"{'.'.join('a' * 5000)}=1", f"a={'9' * 5000}", "a=1:30", "a=2026-99-99", f"a={'{b: ' * 100}"],
)
def test_a_setting_on_the_command_line_has_the_same_limits(setting: str):
    with pytest.raises(UsageError):
        overlay([setting])


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x9b", "\ud800"])
@pytest.mark.parametrize("position", ["key", "value", "list"])
def test_a_control_character_is_refused_in_any_position(character: str, position: str):
    model: dict[str, object] = {"source": "n.onnx"}
    arguments = {"key": {f"a{character}": 1}, "value": {"a": character}, "list": {"a": [1, [character]]}}[position]
    with pytest.raises(InputError) as caught:
        check({"models": {"n": {**model, "arguments": arguments}}}, {})
    assert str(caught.value).isprintable() and ascii(character) in caught.value.problem


def test_the_deepest_and_the_largest_are_read():
    assert parse("[" * (DEEPEST - 1) + "x" + "]" * (DEEPEST - 1)).values()
    assert parse("# " + "x" * (LARGEST_BYTES - 2)).values() is None


@pytest.mark.parametrize(("text", "base"), [("010", 8), ("-0_17", 8), ("1:30", 60)])
def test_a_number_that_yaml_reads_in_another_base_than_ten_is_refused(text: str, base: int, tmp_path: Path):
    (tmp_path / "c.yaml").write_text(f"models: {{n: {{source: n.onnx}}}}\nbenchmark: {{repeat: {text}}}\n")
    error = refusal(tmp_path / "c.yaml")
    assert error.where.endswith("c.yaml:2") and f"as a number in base {base}" in error.problem


def test_zeros_and_hexadecimal_numbers_are_read():
    assert parse("[0, 00, 0.5, 00.5, 0x10, 1_000]").values() == [0, 0, 0.5, 0.5, 16, 1000]
