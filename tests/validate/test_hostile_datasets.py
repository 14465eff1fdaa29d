"""Datasets made to do harm are refused in one line, before they are read."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tvmake.config.dataset import DatasetConfig
from tvmake.errors import InputError
from tvmake.validate.dataset_sources import IMAGE_SUFFIXES, FileRows, open_rows


def test_arrays_that_unpack_to_far_more_than_their_file_holds_are_refused_unread(tmp_path: Path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (1 << 27,)})
        for _ in range(1 << 7):
            member.write(bytes(1 << 20))
    with pytest.raises(InputError, match="unpacks to 128 MiB, too much for its size"):
        open_rows(path, DatasetConfig(path=str(path)), [])


@pytest.mark.parametrize("name", ["data.npz", "list.csv"])
def test_a_pipe_in_a_datasets_place_is_refused_at_once(tmp_path: Path, name: str):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="it is a pipe"):
        open_rows(tmp_path / name, DatasetConfig(path=name), [])


def test_a_pipe_instead_of_a_listed_image_is_refused_at_once(tmp_path: Path):
    (tmp_path / "list.csv").write_text("file,label\na.png,0\n")
    os.mkfifo(tmp_path / "a.png")
    rows = open_rows(tmp_path / "list.csv", DatasetConfig(path="list.csv"), [])
    with pytest.raises(InputError, match="it is a pipe"):
        rows.sample(0)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,",
        "{'descr': '\0', 'fortran_order': False, 'shape': (3,), }",
        "[" * 900,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }",
        "{'descr': [('a', '<f4'], 'fortran_order': 7, 'shape': 3, }",
    ],
)
def test_an_array_whose_header_is_no_literal_is_refused(tmp_path: Path, header: str):
    path = tmp_path / "data.npz"
    text = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(12))
    with pytest.raises(InputError, match="array 'images' cannot be read"):
        open_rows(path, DatasetConfig(path=str(path)), [])


def test_an_image_that_unpacks_to_far_more_than_its_file_holds_is_refused_unread(tmp_path: Path):
    path = tmp_path / "bomb.png"
    Image.new("1", (13_300, 13_300)).save(path)
    wide = tmp_path / "wide.png"
    Image.new("L", (9_000, 9_000)).save(wide)
    assert max(path.stat().st_size, wide.stat().st_size) < 300_000
    for file in (path, wide):
        rows = FileRows(tmp_path, [file], None, [])
        with pytest.raises(InputError, match="MiB, too much for its size"):
            rows.sample(0)


def test_no_other_program_runs_what_a_file_with_the_name_of_an_image_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ghostscript = tmp_path / "bin" / "gs"
    ghostscript.parent.mkdir()
    ghostscript.write_text(f"#!/bin/sh\necho 10; touch {tmp_path}/ran\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", str(ghostscript.parent), prepend=os.pathsep)
    image = tmp_path / "a.png"
    image.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    with pytest.raises(InputError, match="not a readable image"):
        FileRows(tmp_path, [image], None, []).sample(0)
    assert not (tmp_path / "ran").exists()


def test_every_suffix_of_an_image_has_its_format_read(tmp_path: Path):
    for suffix in sorted(IMAGE_SUFFIXES):
        Image.new("L", (4, 4), 7).save(tmp_path / f"a{suffix}")
        assert FileRows(tmp_path, [tmp_path / f"a{suffix}"], None, []).sample(0).shape[:2] == (4, 4)


def test_images_of_usual_sizes_are_read_however_plain_they_are(tmp_path: Path):
    Image.new("RGB", (5_000, 4_000), "white").save(tmp_path / "white.png")
    assert FileRows(tmp_path, [tmp_path / "white.png"], None, []).sample(0).shape == (4_000, 5_000, 3)


@pytest.mark.parametrize("names", [("images.npy", "images.npy"), ("images.npy", "images")])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused_as_readers_might_take_either(tmp_path: Path, names: tuple[str, str]):
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for value, name in enumerate(names):
            with archive.open(name, "w") as member:
                np.lib.format.write_array(member, np.full((1, 4), value, np.float32))
    with pytest.raises(InputError, match="it has 'images' twice"):
        open_rows(path, DatasetConfig(path=str(path)), [])


def test_a_member_that_is_not_an_array_is_refused(tmp_path: Path):
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"no array")
    with pytest.raises(InputError, match="array 'images' cannot be read: it is not a numpy array"):
        open_rows(path, DatasetConfig(path=str(path)), [])
