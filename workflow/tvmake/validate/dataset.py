"""A dataset as a sequence of calls: inputs of exactly the model's shapes and dtypes, with labels if it has them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.config.dataset import DatasetConfig
from tvmake.config.dataset_files import MOST_LIST_BYTES
from tvmake.errors import InputError
from tvmake.process.output import counted
from tvmake.storage.plain_files import encoding_error, read_plain
from tvmake.validate.dataset_sources import ArrayRows, Rows, open_rows
from tvmake.validate.preprocess import ImagePreprocessor
from tvmake.validate.samples import concrete_shape, describe_lost_value, numpy_dtype


@dataclass(frozen=True)
class Sample:
    """One call of the model. ``labels`` are int64 class indices [batch], or None; ``truth`` has rows [batch, …] of further
    arrays of the dataset, by key, for metrics."""

    inputs: dict[str, np.ndarray]
    labels: np.ndarray | None
    truth: dict[str, np.ndarray] = field(default_factory=dict)


class Dataset:
    """The result of ``load_dataset``; reads and preprocesses samples during iteration.

    ``len`` counts calls, not images. ``label_names`` is empty when the names are not known.
    """

    def __init__(
        self,
        rows: Rows,
        chosen: np.ndarray,
        feeds: "Feeds",
        label_names: list[str],
        classes: int | None,
        truth: list[str],
    ):
        self.label_names = label_names
        self.classes = classes
        self._rows = rows
        self._chosen = chosen
        self._feeds = feeds
        self._truth = truth

    def __len__(self) -> int:
        return len(self._chosen) // self._feeds.batch

    def __iter__(self) -> Iterator[Sample]:
        for number in range(len(self)):
            indices = self._chosen[number * self._feeds.batch : (number + 1) * self._feeds.batch]
            labels = None if self._rows.labels is None else self._rows.labels[indices]
            inputs = self._feeds.inputs(self._rows, indices)
            for name, values in inputs.items():
                _check_finite(self._rows, indices, name, values)
            truth = {key: self._rows.array(key)[indices] for key in self._truth}
            yield Sample(inputs, labels, truth)


@dataclass(frozen=True)
class Feeds:
    """How rows become inputs: images through ``preprocessor``, other arrays unchanged."""

    image: TensorSpec
    image_shape: tuple[int, ...]
    batched: bool
    preprocessor: ImagePreprocessor
    arrays: dict[str, tuple[str, tuple[int, ...], np.dtype]]

    @property
    def batch(self) -> int:
        return self.image_shape[0] if self.batched else 1

    def inputs(self, rows: Rows, indices: np.ndarray) -> dict[str, np.ndarray]:
        samples = [self.preprocessor(rows.sample(int(index)), rows.where(int(index))) for index in indices]
        tensors = {self.image.name: np.stack(samples) if self.batched else samples[0]}
        for name, (key, shape, kind) in self.arrays.items():
            values = rows.array(key)[indices] if self.batched else rows.array(key)[int(indices[0])]
            cast = np.ascontiguousarray(values, kind)
            if kind.kind in "iub" and values.dtype != kind and not np.array_equal(cast, values):
                problem = f"array {key!r} {describe_lost_value(values, cast.reshape(values.shape))}"
                raise InputError(rows.where(int(indices[0])), problem, f"input {name!r} is {kind}: correct the values")
            tensors[name] = cast.reshape(shape)
        return tensors


def load_dataset(
    config: DatasetConfig,
    signature: Signature,
    *,
    dims: Mapping[str, int] | None = None,
) -> Dataset:
    """Open a dataset and check that it matches the model.

    Args:
        dims: sizes of dynamic dimensions by name; default: 1, or their minimum.

    Raises:
        InputError: a file is missing or unreadable, or shapes, dtypes, counts or labels do not match the model. Images are
            read, and errors in them found, only during iteration.
    """
    dims = {**signature.default_sizes, **(dims or {})}
    path = Path(config.path)
    image = _image_input(config, signature)
    shape = concrete_shape(image, dims)
    names = _label_names(config)
    rows = open_rows(path, config, names)
    class_names = names or rows.class_names
    classes = _classes(signature, dims)
    _check_labels(rows, class_names, classes)
    batched = _is_batched(rows.sample_shape, shape)
    preprocessor = ImagePreprocessor(
        config.preprocess,
        shape[1:] if batched else shape,
        numpy_dtype(image),
        f"{rows.path}, input {image.name!r}",
        is_file=rows.is_files,
    )
    arrays = {
        name: _array_feed(rows, signature, name, key, dims, batched, shape[0] if batched else 1)
        for name, key in config.arrays.items()
    }
    feeds = Feeds(image, shape, batched, preprocessor, arrays)
    chosen = _choose(len(rows), config)
    if len(chosen) < feeds.batch:
        remedies = ["add samples"]
        remedies += ["raise `limit`"] if len(rows) > len(chosen) else []
        remedies += ["import the model with a smaller batch"] if feeds.batch > 1 else []
        raise InputError(
            str(path),
            f"has {counted(len(rows), 'sample')}, {len(chosen)} of them for use; a call of the model needs {feeds.batch}",
            ", or ".join(remedies),
        )
    for key in config.truth:
        _check_truth(rows, key)
    if isinstance(rows, ArrayRows):  # here already; files are read one by one
        used = chosen[: len(chosen) // feeds.batch * feeds.batch]
        for name, key in {image.name: rows.key, **config.arrays}.items():
            _check_finite(rows, used, name, rows.array(key)[used])
    return Dataset(rows, chosen, feeds, class_names, classes, config.truth)


def _image_input(config: DatasetConfig, signature: Signature) -> TensorSpec:
    specs = {spec.name: spec for spec in signature.inputs}
    for name in [*config.arrays, *([config.input] if config.input else [])]:
        if name not in specs:
            raise InputError(config.path, f"the model has no input {name!r}", f"its inputs are: {', '.join(specs)}")
    rest = [name for name in specs if name not in config.arrays]
    chosen = config.input or (rest[0] if rest else None)
    unfed = [name for name in rest if name != chosen]
    if chosen is None or chosen in config.arrays or unfed:
        if unfed:
            raise InputError(
                config.path,
                f"nothing feeds input {unfed[0]!r}",
                "name the .npz key of every further input under `arrays`",
            )
        first = config.input or next(iter(config.arrays))
        raise InputError(
            config.path,
            "every input is fed by `arrays`, none by `images`",
            f"remove {first!r} from `arrays`, and set its key as `images: {config.arrays[first]}`",
        )
    return specs[chosen]


def _label_names(config: DatasetConfig) -> list[str]:
    if not isinstance(config.label_names, str):
        return list(config.label_names or [])
    path = Path(config.label_names)
    try:
        content = read_plain(path, MOST_LIST_BYTES, "list of names")
        names = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(
            str(path), f"cannot read label names: {error}", "use a text file with one name per line"
        ) from None
    except UnicodeDecodeError as error:
        raise encoding_error(path, error) from None
    return [name.strip() for name in names if name.strip()]


def _classes(signature: Signature, dims: Mapping[str, int] | None) -> int | None:
    for spec in signature.outputs:
        if len(spec.shape) == 2 and isinstance(spec.shape[1], int) and spec.shape[1] >= 2:
            return spec.shape[1]
    return None


def _check_labels(rows: Rows, names: list[str], classes: int | None) -> None:
    if names and classes is not None and len(names) != classes:
        if names == rows.class_names:
            listed = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
            raise InputError(
                str(rows.path),
                f"has {counted(len(names), 'sub-directory', 'sub-directories')} ({listed}), the model has {classes} classes",
                "list every class under `label_names`, in the order of the model's outputs; some may have no sub-directory",
            )
        raise InputError(
            str(rows.path),
            f"has {counted(len(names), 'label name')}, the model has {classes} classes",
            "use one name per class, in the order of the model's outputs: a list, or a text file with one per line",
        )
    if rows.labels is None or not len(rows.labels):
        return
    count = classes if classes is not None else (len(names) or None)
    worst = rows.labels.min() if rows.labels.min() < 0 else rows.labels.max()
    if worst < 0 or (count is not None and worst >= count):
        index = int(np.flatnonzero(rows.labels == worst)[0])
        raise InputError(
            rows.where(index),
            f"has label {worst}, the model's classes are 0 to {count - 1}" if count else f"has label {worst}, below 0",
            "labels are the indices of the model's outputs, starting at 0",
        )


def _is_batched(stored: tuple[int, ...] | None, shape: tuple[int, ...]) -> bool:
    """Whether an input's first axis counts samples; ``stored`` is one sample's shape, None for image files."""
    if stored is not None and (stored == shape or stored == shape[1:]):
        return stored == shape[1:]
    if len(shape) == 3:  # [channels, h, w] and [h, w, channels] are single images, others batches of gray ones
        return shape[0] not in (1, 3) and shape[2] not in (1, 3)
    if len(shape) == 2:  # [h, w] is an image, [batch, features] are rows
        return stored is not None and (len(stored) < 2 or shape[0] == 1)
    return len(shape) > 3


def _array_feed(
    rows: Rows,
    signature: Signature,
    name: str,
    key: str,
    dims: Mapping[str, int] | None,
    batched: bool,
    batch: int,
) -> tuple[str, tuple[int, ...], np.dtype]:
    spec = next(spec for spec in signature.inputs if spec.name == name)
    shape, dtype, array = concrete_shape(spec, dims), numpy_dtype(spec), rows.array(key)
    row = (batch, *array.shape[1:]) if batched else array.shape[1:]
    if len(array) != len(rows) or row != shape:
        raise InputError(
            str(rows.path),
            f"array {key!r} is {list(array.shape)}; input {name!r} has shape {list(shape)}, and there are {len(rows)} samples",
            "store one row per sample, with the model's input shape",
        )
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise InputError(str(rows.path), f"array {key!r} is {array.dtype}; input {name!r} is {dtype}", "convert it")
    return key, shape, dtype


def _check_finite(rows: Rows, indices: np.ndarray, name: str, values: np.ndarray) -> None:
    """Refuse inputs that are not finite: the network's outputs for them say nothing about a package."""
    if values.dtype.kind == "f" and not (is_finite := np.isfinite(values)).all():
        if len(values) == len(indices):
            indices = indices[~is_finite.reshape(len(values), -1).all(1)][:1]
        which = f"sample {indices[0]}" if len(indices) == 1 else f"samples {indices[0]} to {indices[-1]}"
        raise InputError(
            f"{rows.path}, {which}",
            f"input {name!r} has NaN or infinity",
            "remove the sample from the dataset, or correct its values",
        )


def _check_truth(rows: Rows, key: str) -> None:
    array = rows.array(key)
    if not array.ndim or len(array) != len(rows):
        problem = f"array {key!r} is {list(array.shape)}, and there are {len(rows)} samples"
        raise InputError(str(rows.path), problem, "store one row per sample")
    if array.dtype.kind not in "biufc":
        raise InputError(str(rows.path), f"array {key!r} is {array.dtype}", "store numbers")


def _choose(count: int, config: DatasetConfig) -> np.ndarray:
    if config.limit is None or config.limit >= count:
        return np.arange(count)
    return np.sort(np.random.RandomState(config.seed % 2**32).permutation(count)[: config.limit])
