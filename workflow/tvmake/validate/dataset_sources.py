"""Sources of datasets: named arrays, a directory of images, or a list of files and labels."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tvmake.artifact.array_files import FREE_BYTES, MOST_RATIO, array_of, open_arrays
from tvmake.artifact.tensor_file import DAMAGE, reason
from tvmake.config.dataset import DatasetConfig
from tvmake.config.dataset_files import LIST_SUFFIXES, read_list, separator
from tvmake.errors import InputError
from tvmake.storage.plain_files import open_plain

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""Accepted image formats, whatever the file's name: for some other formats (PostScript), Pillow runs other programs."""

GRAY, DEEP = ("1", "L"), "IF"
"""Pillow's modes of images without colour: up to 8 bits, and the prefixes of those with more."""


_LABELS_OF_FILES = "labels are the names of sub-directories, or come from a .csv list in `path`"


class Rows(Protocol):
    """Samples by index, before preprocessing.

    ``labels`` is int64 [n] or None. ``class_names`` are names the source itself implies (directories). ``is_files``
    distinguishes image files from arrays. ``sample_shape`` is one sample's shape, None if every image has its own.
    """

    path: Path
    labels: np.ndarray | None
    class_names: list[str]
    is_files: bool
    sample_shape: tuple[int, ...] | None

    def __len__(self) -> int: ...

    def sample(self, index: int) -> np.ndarray:
        """One sample: an image as uint8 [h, w] or [h, w, channels], or a row of an array unchanged."""
        ...

    def where(self, index: int) -> str:
        """How to name one sample in a message."""
        ...

    def array(self, key: str) -> np.ndarray:
        """Another array of the same source."""
        ...


USUAL_KEY = DatasetConfig.model_fields["images"].default
"""The default name of the samples' array."""


def open_rows(path: Path, config: DatasetConfig, names: list[str]) -> Rows:
    """Open the source in ``path``: ``.npz``, a directory, or a ``.csv``/``.tsv`` list.

    Args:
        names: class names in order, for lists and directories with names instead of numbers.

    Raises:
        InputError: the file is missing, or does not match ``config``.
    """
    if not path.exists():
        raise InputError(str(path), "no such dataset", "check `dataset.path`")
    if path.is_dir() or path.suffix.lower() in LIST_SUFFIXES:
        _check_names_no_arrays(path, config)
    if path.is_dir():
        return _directory(path, names)
    if path.suffix.lower() in LIST_SUFFIXES:
        return _file_list(path, names)
    if path.suffix.lower() == ".npz":
        return ArrayRows(path, config)
    raise InputError(str(path), "not a dataset", "use an .npz, a directory of images, or a .csv/.tsv list of files")


def _check_names_no_arrays(path: Path, config: DatasetConfig) -> None:
    """Keys that would have no effect on files of images."""
    for key, usual in (("images", ("images",)), ("labels", ("labels", None))):
        if (value := getattr(config, key)) not in usual:
            what = "a directory of images" if path.is_dir() else "a list of files"
            remedy = f"remove it: it names an array of an .npz; {_LABELS_OF_FILES}"
            raise InputError(str(path), f"is {what}, on which `{key}: {value}` has no effect", remedy)


class ArrayRows:
    """Rows of the arrays in an ``.npz``."""

    is_files: bool = False

    def __init__(self, path: Path, config: DatasetConfig):
        self.path = path
        self._config = config
        self.class_names: list[str] = []
        self._arrays: dict[str, np.ndarray] = {}
        self.key = key = self._key_of_samples()
        self._images = self.array(key)
        if self._images.ndim == 0 or self._images.dtype.kind not in "biuf":
            raise InputError(
                str(path),
                f"array {key!r} is {self._images.dtype} {list(self._images.shape)}",
                "store numbers, one row per sample",
            )
        self.sample_shape: tuple[int, ...] | None = self._images.shape[1:]
        self.labels: np.ndarray | None = None if config.labels is None else self._labels(config.labels)

    def _key_of_samples(self) -> str:
        """The array of the samples: the named one, or the only one other than labels."""
        keys = self._keys()
        others = [key for key in keys if key not in (self._config.labels, *self._config.truth)]
        is_named = self._config.images in keys or self._config.images != USUAL_KEY or self._config.arrays
        return self._config.images if is_named or len(others) != 1 else others[0]

    def _labels(self, key: str) -> np.ndarray | None:
        if key == "labels" and key not in self._keys():
            return None
        labels = self.array(key)
        if labels.shape != (len(self),):
            raise InputError(
                str(self.path),
                f"array {key!r} is {list(labels.shape)} for {len(self)} samples",
                "store one class index per sample, in one dimension",
            )
        if labels.dtype.kind not in "iu" and not (labels.dtype.kind == "f" and (labels == np.floor(labels)).all()):
            raise InputError(str(self.path), f"array {key!r} is {labels.dtype}", "store class indices as integers")
        if labels.size and labels.min() < 0:
            where = f"{self.path}, sample {int(labels.argmin())}"
            remedy = "labels are the indices of the model's outputs, starting at 0"
            raise InputError(where, f"has label {int(labels.min())}", remedy)
        return labels.astype(np.int64)

    def __len__(self) -> int:
        return len(self._images)

    def sample(self, index: int) -> np.ndarray:
        return self._images[index]

    def where(self, index: int) -> str:
        return f"{self.path}, sample {index}"

    def _keys(self) -> list[str]:
        with self._open() as archive:
            return list(archive.files)

    @contextmanager
    def _open(self) -> Iterator[np.lib.npyio.NpzFile]:
        with ExitStack() as stack:
            try:
                archive = stack.enter_context(open_arrays(self.path))
            except DAMAGE as error:
                problem = f"not an .npz of arrays ({reason(error)})"
                raise InputError(str(self.path), problem, "write it with numpy.savez") from None
            yield archive

    def _config_key(self, key: str) -> str:
        """The key of the config that names an array."""
        keys = {self._config.images: "images", self._config.labels: "labels"}
        return f"`dataset.{keys.get(key) or ('truth' if key in self._config.truth else 'arrays')}`"

    def array(self, key: str) -> np.ndarray:
        if key not in self._arrays:
            with self._open() as archive:
                if key not in archive.files:
                    remedy = f"its arrays are: {', '.join(archive.files) or 'none'}; name the right one under {self._config_key(key)}"
                    if key == self._config.labels:
                        remedy += ", or write null without labels"
                    if key == self._config.images and self._config.arrays:
                        remedy += ": `images` is that of the input which `arrays` leaves out"
                    raise InputError(str(self.path), f"has no array {key!r}", remedy)
                try:
                    self._arrays[key] = array_of(archive, key)
                except DAMAGE as error:
                    problem = f"array {key!r} cannot be read: {reason(error)}"
                    raise InputError(str(self.path), problem, "store numbers, as of array.astype('float32')") from None
        return self._arrays[key]


class FileRows:
    """Image files with optional labels."""

    is_files: bool = True
    sample_shape: tuple[int, ...] | None = None

    def __init__(self, path: Path, files: list[Path], labels: list[int] | None, class_names: list[str]):
        self.path = path
        self.labels: np.ndarray | None = None if labels is None else np.asarray(labels, np.int64)
        self.class_names = class_names
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def sample(self, index: int) -> np.ndarray:
        from PIL import Image, UnidentifiedImageError

        file = self._files[index]
        try:
            with open_plain(file) as opened, Image.open(opened, formats=IMAGE_FORMATS) as image:
                size = 1 if image.mode in GRAY else 2 if image.mode[0] in DEEP else 3
                self._refuse_bomb(file, image.width * image.height * size)
                return _pixels(image)
        except (OSError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            problem = f"not a readable image ({reason(error)})"
            if isinstance(error, Image.DecompressionBombError):
                problem = f"has more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
            elif isinstance(error, UnidentifiedImageError):  # whose text has a number for a file
                problem = "not a readable image (of no kind that is known)"
            elif isinstance(error, FileNotFoundError):
                problem = "no such file"
            raise InputError(str(file), problem, f"correct it, or remove it from {self.path}") from None

    def _refuse_bomb(self, file: Path, claimed: int) -> None:
        """Refuse an image that would unpack to far more than its file's size."""
        if claimed > max(FREE_BYTES, MOST_RATIO * file.stat().st_size):
            problem = f"unpacks to {claimed >> 20} MiB, too much for its size"
            raise InputError(str(file), problem, f"make it smaller, or remove it from {self.path}")

    def where(self, index: int) -> str:
        return str(self._files[index])

    def array(self, key: str) -> np.ndarray:
        raise InputError(str(self.path), f"has only images, no array {key!r}", "use an .npz for several inputs")


def _pixels(image: "Image") -> np.ndarray:
    """An image as uint8, gray or RGB; of 16 bits the upper eight, as Pillow does for colours.

    Raises:
        ValueError: the range of its pixels is unknown.
    """
    if image.mode[0] not in DEEP:
        mode = "L" if image.mode in GRAY else "RGB"
        return np.asarray(image if image.mode == mode else image.convert(mode))
    values = np.asarray(image)
    if image.mode == "F" or (values >> 16).any():
        raise ValueError("its pixels have 32 bits: save it with 8 or 16")
    return (values >> 8).astype(np.uint8)


def _directory(path: Path, names: list[str]) -> FileRows:
    directories = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not directories:
        files = _images_in(path)
        if not files:
            raise InputError(str(path), "has no images", f"known suffixes: {', '.join(sorted(IMAGE_SUFFIXES))}")
        return FileRows(path, files, None, [])
    classes = names or [directory.name for directory in directories]
    files, labels = [], []
    for directory in directories:
        if directory.name not in classes:
            raise InputError(str(directory), "no label has this name", "name the sub-directories as in `label_names`")
        images = _images_in(directory)
        files += images
        labels += [classes.index(directory.name)] * len(images)
    if not files:
        raise InputError(str(path), "its sub-directories have no images", "put each class's images in one of them")
    return FileRows(path, files, labels, [] if names else classes)


def _images_in(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES and not file.is_dir())


def _file_list(path: Path, names: list[str]) -> FileRows:
    lines = read_list(path)
    if lines and lines[0].cells in (["file"], ["file", "label"]):
        lines = lines[1:]
    if not lines:
        raise InputError(str(path), "lists no files", "write one `file,label` a line")
    columns = len(lines[0].cells)
    files, labels = [], []
    first: dict[Path, int] = {}
    for number, cells in lines:
        if len(cells) != columns or columns > 2:
            raise InputError(
                f"{path}:{number}",
                f"has {len(cells)} columns",
                f"write `file` or `file{separator(path)}label` on every line",
            )
        if columns == 1 and (sign := next((sign for sign in ";\t|" if sign in cells[0]), None)):
            problem = f"has one column, with {sign!r} in it"
            raise InputError(f"{path}:{number}", problem, f"write `file{separator(path)}label` on every line")
        file = path.parent / cells[0]
        files.append(file)
        if columns == 2:
            labels.append(_label(cells, names, f"{path}:{number}"))
            line = lines[first.setdefault(file, len(files) - 1)]
            if labels[first[file]] != labels[-1]:
                problem = f"{cells[0]} has the label {cells[1]!r}, and {line.cells[1]!r} in line {line.number}"
                raise InputError(f"{path}:{number}", problem, "remove one of the lines")
    for (number, _), file in zip(lines, files, strict=True):
        if not os.path.exists(file):  # noqa: PTH110  # also of names that cannot be
            remedy = f"remove the line, or correct the name, which is relative to {path.parent}"
            raise InputError(f"{path}:{number}", f"{file}: no such file", remedy)
    return FileRows(path, files, labels if columns == 2 else None, [])


def _label(cells: list[str], names: list[str], where: str) -> int:
    first, text = cells
    if text in names:
        return names.index(text)
    try:
        return int(text.removesuffix(".0"))  # as pandas writes a column with gaps
    except ValueError:
        remedy = "it is not among `label_names`" if names else "set `label_names`, or use class indices"
        if Path(text).suffix.lower() in IMAGE_SUFFIXES and not Path(first).suffix:
            remedy = "the file comes first, and then its label"
        raise InputError(where, f"label {text!r} is not a class", remedy) from None
