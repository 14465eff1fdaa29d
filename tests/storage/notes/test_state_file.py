"""Notes with a digest: read unaltered, or not at all."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmake.storage.notes.state_file import read_state, write_state

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes" / "state.json"


@given(value=VALUES)
def test_a_note_says_what_was_written(tmp_path_factory: pytest.TempPathFactory, value: object):
    file = tmp_path_factory.mktemp("notes") / "state.json"
    write_state(file, 1, value)
    assert read_state(file, 1) == value


def test_a_note_of_another_form_is_not_read(file: Path):
    write_state(file, 1, {"a": 1})
    assert read_state(file, 2) is None


def test_a_note_with_any_byte_changed_or_cut_off_is_not_read(file: Path):
    write_state(file, 1, {"files": ["results/mod.so"], "number": 12})
    written = file.read_bytes()
    for position in range(len(written)):
        file.write_bytes(written[:position] + bytes([written[position] ^ 1]) + written[position + 1 :])
        assert read_state(file, 1) is None
        file.write_bytes(written[:position])
        assert read_state(file, 1) is None


def test_no_note_is_none(file: Path):
    assert read_state(file, 1) is None


def test_what_is_not_a_file_is_not_read_and_not_waited_for(file: Path):
    write_state(file, 1, "written")
    file.unlink()
    makers = (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path))
    for make in makers:
        make(file)
        assert read_state(file, 1) is None
        file.rmdir() if file.is_dir() else file.unlink()
