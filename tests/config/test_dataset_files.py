"""The files of a dataset, whose changes rerun stages."""

from pathlib import Path

import pytest

from tvmake.config.dataset import DatasetConfig
from tvmake.config.dataset_files import dataset_files
from tvmake.errors import InputError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.csv", "file,label\na.png,0\n"),
        ("list.csv", '\ufefffile,label\n"a.png",0\n'),
        ("LIST.CSV", "a.png\n"),
        ("list.tsv", "a.png\t0\n"),
        ("list.csv", f"a.png,0\n{'x' * 5000},1\n\n"),
    ],
)
def test_images_of_a_list_are_files_of_the_dataset_in_any_list_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
):
    monkeypatch.chdir(tmp_path)
    Path("a.png").touch()
    Path(name).write_text(text)
    assert dataset_files(DatasetConfig(path=name)) == [name, "a.png"]


def test_a_binary_list_is_refused(tmp_path: Path):
    (tmp_path / "list.csv").write_bytes(b"\xff,1\n")
    with pytest.raises(InputError, match="cannot be read"):
        dataset_files(DatasetConfig(path=str(tmp_path / "list.csv")))
