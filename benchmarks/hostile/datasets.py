"""Datasets for the reference stage: images in a directory or a list, and arrays in an ``.npz``."""

import functools
import io
import json
import random
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from .cases import Case
from .mutate import NUMBERS, TEXTS, mutate_bytes

SUFFIXES = ("png", "jpg", "bmp", "gif", "tiff", "webp", "ppm", "pgm")
SIDES = (1, 9_000, 13_000, 13_300, 20_000, 65_535, 2**31 - 1)
"""Of images that claim a size: Pillow warns above 89 million pixels, and refuses twice as many."""

ZEROS = (1 << 10, 1 << 20, 64 << 20, 540 << 20)
"""Sizes of what is packed into less than a megabyte."""

MODEL = """
<ir_version: 9, opset_import: ["" : 18]>
main (float[1, 3, 8, 8] x) => (float[1, 3, 8, 8] y) { y = Relu (x) }
"""
SIGNATURE = {
    "inputs": [{"name": "x", "relax_name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}],
    "outputs": [{"name": "y", "relax_name": "y", "shape": [1, 3, 8, 8], "dtype": "float32"}],
}
REFERENCE = "reference.npz"


class _Kind:
    """A model for images of 8×8, and the command that runs it on a dataset."""

    preload = ("tvmake.cli.app", "tvmake.validate.dataset", "tvmake.validate.reference.onnx_model", "onnx", "PIL.Image")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import onnx
        from onnx import parser

        onnx.save(parser.parse_model(MODEL), samples / "m.onnx")

    def command(self, samples: Path, directory: Path, dataset: dict[str, Any]) -> list[str]:
        """The reference stage on a dataset."""
        from tvmake.artifact import stage_json
        from tvmake.artifact.signature import Signature
        from tvmake.artifact.source import SourceRecord
        from tvmake.storage.files import digest_file

        source = samples / "m.onnx"
        record = SourceRecord(source=str(source), format="onnx", files={str(source): digest_file(source)}, notes={})
        stage_json.save(record, directory / "source.json")
        stage_json.save(Signature.model_validate(SIGNATURE), directory / "s.json")
        options = {"model": {"source": str(source)}, "dataset": dataset}
        return [
            "step",
            "reference",
            "s.json",
            "source.json",
            "--options",
            json.dumps(options),
            "--reference",
            REFERENCE,
        ]


class Images(_Kind):
    """Bytes of images of all kinds, the sizes that they claim, and lists of them."""

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import numpy as np
        from PIL import Image

        super().prepare(samples)
        pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8)
        for suffix in SUFFIXES:
            Image.fromarray(pixels[:, :, 0] if suffix == "pgm" else pixels).save(samples / f"rgb.{suffix}")
        Image.fromarray(pixels).quantize(16).save(samples / "palette.png")
        Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 257).save(samples / "deep.png")
        frames = [Image.fromarray(pixels), Image.fromarray(255 - pixels)]
        frames[0].save(samples / "animated.gif", save_all=True, append_images=frames[1:])
        frames[0].save(samples / "packed.tiff", compression="tiff_lzw")

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        images = sorted(file for file in samples.iterdir() if file.suffix != ".onnx")
        chosen = chance.choice(images)
        how, data = other_picture(chosen, chance)
        root = directory / "data"
        root.mkdir()
        (root / f"a{chosen.suffix}").write_bytes(data)
        (root / "b.png").write_bytes((samples / "rgb.png").read_bytes())
        dataset: dict[str, Any] = {"path": "data", "preprocess": {"resize": [8, 8]}}
        if chance.random() < 0.2:
            how, dataset["path"] = "list", "list.csv"
            listed = f"file,label\ndata/a{chosen.suffix},0\ndata/b.png,1\n".encode()
            line = chance.choice(
                (chance.choice(TEXTS), "data/b.png,1,1", "../../../etc/passwd,0", "data,0", '"data/b.png')
            )
            added = f"{line}\n".encode(errors="surrogatepass")
            (directory / "list.csv").write_bytes(
                mutate_bytes(listed, chance) if chance.random() < 0.5 else listed + added
            )
        command = self.command(samples, directory, dataset)

        def wrong() -> str | None:
            with zipfile.ZipFile(directory / REFERENCE) as archive:
                count = sum(name.startswith("input/") for name in archive.namelist())
            return None if how == "list" or count == 2 else f"{count} images of 2 were read"

        return Case(f"{how} of {chosen.name}", [command], wrong, (REFERENCE, ".snakemake/"))


class Arrays(_Kind):
    """Bytes and members of an ``.npz``, and headers of its arrays."""

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        import numpy as np

        random_numbers = np.random.default_rng(0)
        arrays = {
            "images": random_numbers.random((3, 3, 8, 8), np.float32),
            "labels": np.arange(3, dtype=np.int64),
        }
        how = chance.choice(("bytes", "header", "header", "member", "packed"))
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED if how == "packed" else zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                content = io.BytesIO()
                np.save(content, array)
                data = content.getvalue()
                if how == "member" and chance.random() < 0.7:
                    data = mutate_bytes(data, chance)
                if how == "header" and chance.random() < 0.7:
                    data = _other_header(data, chance)
                if how == "packed" and chance.random() < 0.5:
                    data += bytes(chance.choice((1 << 20, 60 << 20, 300 << 20)))
                archive.writestr(f"{name}.npy", data)
        data = mutate_bytes(written.getvalue(), chance) if how == "bytes" else written.getvalue()
        (directory / "d.npz").write_bytes(data)
        command = self.command(samples, directory, {"path": "d.npz"})

        def wrong() -> str | None:
            found = np.load(directory / "d.npz", allow_pickle=False)["images"]
            with np.load(directory / REFERENCE, allow_pickle=False) as made:
                inputs = [made[name] for name in sorted(made.files) if name.startswith("input/")]
            same = len(inputs) == len(found) and all(
                np.array_equal(one.ravel(), there.astype(np.float32).ravel(), equal_nan=True)
                for one, there in zip(inputs, found, strict=True)
            )
            return None if same else "other numbers than the file's were used"

        return Case(how, [command], wrong, (REFERENCE, ".snakemake/"))


def other_array(file: Path, name: str, how: str, chance: random.Random) -> bytes:
    """An ``.npy`` or ``.npz`` with other bytes, or that claims another shape, type or size."""
    data = file.read_bytes()
    if how == "bytes":
        return mutate_bytes(data, chance)
    if file.suffix == ".npy":
        return _other_header(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = _other_header(archive.read(f"{name}.npy"), chance)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", content + bytes(chance.choice(ZEROS)) * (chance.random() < 0.5))
        if chance.random() < 0.3:
            archive.writestr(chance.choice(("other.npy", "../outside.npy", f"{name}.npy", "a" * 60_000)), content)
    return written.getvalue()


def other_picture(file: Path, chance: random.Random) -> tuple[str, bytes]:
    """An image with other bytes, chunks or size; what of it is changed, and its bytes."""
    data = file.read_bytes()
    if file.suffix == ".png" and chance.random() < 0.6:
        return "chunks", _other_chunks(data, chance)
    if chance.random() < 0.25:
        return "size", _other_size(file.suffix, data, chance)
    return "bytes", mutate_bytes(data, chance)


def _other_chunks(data: bytes, chance: random.Random) -> bytes:
    """A PNG whose chunks are changed, and have right check sums."""
    chunks, at = [], 8
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    index = chance.randrange(len(chunks))
    name, content = chunks[index]
    match chance.randrange(5):
        case 0:
            width, height = chance.choice(SIDES), chance.choice(SIDES)
            depth, color = chance.choice(((8, 2), (8, 6), (1, 0), (16, 6), (8, 3)))
            chunks[0] = (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, chance.choice((0, 0, 1))))
            rows = _zeros(next(size for size in ZEROS if size >= min(width * height * 4, ZEROS[-1])))
            chunks = [chunks[0], (b"IDAT", rows), (b"IEND", b"")]
        case 1:
            chunks[index] = (name, mutate_bytes(content, chance))
        case 2:
            chunks.insert(index, (chance.choice((b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf", b"acTL")), _bomb(chance)))
        case 3:
            chunks[index : index + 1] = [(name, content)] * chance.choice((0, 2, 500))
        case 4:
            chance.shuffle(chunks)
    parts = [struct.pack(">I", len(body)) + kind + body + _sum(kind + body) for kind, body in chunks]
    return data[:8] + b"".join(parts)


@functools.cache
def _zeros(size: int) -> bytes:
    """Packed as small as can be."""
    return zlib.compress(bytes(size), 9)


def _bomb(chance: random.Random) -> bytes:
    return b"name\0\0" + _zeros(chance.choice(ZEROS))


def _sum(content: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(content))


def _other_size(suffix: str, data: bytes, chance: random.Random) -> bytes:
    """An image that claims another size, if the size has a fixed offset; else another number somewhere."""
    width, height = chance.choice(SIDES), chance.choice(SIDES)
    if suffix == ".bmp":
        return data[:18] + struct.pack("<ii", width, height if chance.random() < 0.7 else -height) + data[26:]
    if suffix == ".gif":
        return data[:6] + struct.pack("<HH", width & 0xFFFF, height & 0xFFFF) + data[10:]
    if suffix in (".ppm", ".pgm"):
        return data[:2] + f"\n{width} {height}\n255\n".encode() + data[-360:]
    at = chance.randrange(len(data))
    return data[:at] + struct.pack("<I", chance.choice((*SIDES, *NUMBERS)) & 0xFFFFFFFF) + data[at + 4 :]


def _other_header(data: bytes, chance: random.Random) -> bytes:
    """An array with another header: shape, type or order."""
    shapes = (
        "(3, 3, 8, 8)",
        "(3,)",
        "()",
        "(0, 3, 8, 8)",
        "(1000000000000, 3, 8, 8)",
        "(-1, 3)",
        f"({2**63},)",
        "(3," * 500,
    )
    types = (
        "'<f4'",
        "'<i8'",
        "'|O'",
        "'<U4'",
        "'<c8'",
        "'|V9'",
        "[('a', '<f4')]",
        "'<M8[s]'",
        repr(chance.choice(TEXTS)),
    )
    shape = chance.choice(shapes) if chance.random() < 0.6 else chance.choice(shapes[:2])
    header = (
        f"{{'descr': {chance.choice(types)}, 'fortran_order': {chance.choice((False, True, 7))}, 'shape': {shape}, }}"
    )
    if chance.random() < 0.1:
        header = "[" * 9000
    text = header.encode(errors="replace").ljust(117) + b"\n"
    (size,) = struct.unpack_from("<H", data, 8)
    return data[:8] + struct.pack("<H", min(len(text), 65535)) + text[:65535] + data[10 + size :]
