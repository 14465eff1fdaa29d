"""The inputs of a run: arrays and images from files, or generated."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tvmake.artifact.array_files import array_of, open_arrays, read_array_file
from tvmake.artifact.extents import check_extents
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.artifact.tensor_file import DAMAGE, reason
from tvmake.config.dataset import Preprocessing
from tvmake.errors import InputError
from tvmake.process.output import counted
from tvmake.running.arguments import validate_argument
from tvmake.validate.dataset_sources import IMAGE_SUFFIXES, FileRows
from tvmake.validate.preprocess import ImagePreprocessor
from tvmake.validate.samples import concrete_shape, describe_lost_value, numpy_dtype, random_tensor

Fill = Literal["random", "zeros", "ones"]

Arrays = dict[str, np.ndarray]

Given = Mapping[str, np.ndarray] | np.ndarray | None
"""Inputs of a run by name, or the first one."""


def inputs_from_files(signature: Signature, given: Sequence[str], preprocessing: Preprocessing) -> Arrays:
    """Read inputs from files; returns them by their names in the source model.

    Args:
        given: ``FILE`` or ``INPUT=FILE`` each. An ``.npz`` has arrays by input; an ``.npy`` or images belong to the named
            input, else to the only one, or the first without a file. Several images make a batch.
        preprocessing: from pixels to the input.

    Raises:
        InputError: a file cannot be read, or does not match the input.
    """
    arrays: Arrays = {}
    images: dict[str, list[Path]] = {}
    for text in given:
        name, file = _split_name(signature, text)
        path = Path(file)
        suffix = path.suffix.lower()
        if not path.is_file():
            problem = (
                "no such file" if not path.exists() else "is a directory" if path.is_dir() else "is not a plain file"
            )
            raise InputError(file, problem, f"use files of {_inputs(signature)}")
        if suffix == ".npz":
            if name is not None:
                raise InputError(str(path), "contains names of inputs", f"use it without '{name}='")
            archive = _from_archive(signature, path)
            _check_once(text, archive, {*arrays, *images})
            arrays |= archive
            continue
        if suffix not in (".npy", *IMAGE_SUFFIXES):
            kinds = f".npz, .npy, {', '.join(sorted(IMAGE_SUFFIXES))}"
            raise InputError(str(path), "not a file of inputs", f"use one of {kinds}")
        name = name or _next_input(signature, arrays, images, is_image=suffix in IMAGE_SUFFIXES, path=path)
        # Further images make a batch.
        _check_once(text, [name], {*arrays, *(images if suffix == ".npy" else ())})
        if suffix == ".npy":
            arrays[name] = _array(path)
        else:
            images.setdefault(name, []).append(path)
    for name, files in images.items():
        arrays[name] = _batch(_spec(signature, name), files, preprocessing)
    return arrays


def match_inputs(
    signature: Signature,
    given: Mapping[str, np.ndarray],
    fill: Fill | None,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
) -> Arrays:
    """All inputs, with the element types of the package.

    Args:
        given: arrays by the input's name in the source, or in Relax.
        fill: the values of missing inputs; None refuses missing inputs.
        sizes: of dynamic dimensions of missing inputs, by name; default: 1, or the smallest one that the package takes.

    Raises:
        InputError: an input is unknown, missing, or has another shape or type, or values that its type cannot represent, or
            indices beyond their table; a dimension is unknown, or the package or a given input has another size.
    """
    if fill is not None:
        fill = validate_argument("fill", Fill, fill)
    known = _names(signature)
    arrays: Arrays = {}
    for name, array in given.items():
        if name not in known:
            raise InputError(name, "the package has no such input", f"it takes {_inputs(signature)}")
        arrays[known[name]] = as_array(f"input '{name}'", array)
    check_extents(signature, {name: array.shape for name, array in arrays.items()})
    sizes = sizes or {}
    _check_names(signature, sizes)
    dims = {**signature.default_sizes, **sizes}
    given_inputs = [spec for spec in signature.inputs if spec.name in arrays]
    for spec in given_inputs:  # first: a size may be an expression over dimensions of a later input
        dims |= _sizes(spec, arrays[spec.name])
    fitted: Arrays = {}
    for spec in given_inputs:
        fitted[spec.name] = _match(spec, arrays[spec.name], dims)
        _check_indices(spec, fitted[spec.name])
    missing = [spec for spec in signature.inputs if spec.name not in fitted]
    if missing and fill is None:
        names = ", ".join(f"'{spec.name}'" for spec in missing)
        raise InputError("inputs", f"no values for {names}", f"the package takes {_inputs(signature)}")
    for name, size in sizes.items():
        if dims[name] != size:
            raise InputError(f"--dim {name}={size}", f"the inputs' files have {name} {dims[name]}", "omit the option")
    if sizes:
        check_extents(signature, {spec.name: concrete_shape(spec, dims) for spec in signature.inputs})
    fitted |= {spec.name: _generate(spec, fill or "random", seed, dims) for spec in missing}
    return {spec.name: fitted[spec.name] for spec in signature.inputs}


def _check_names(signature: Signature, sizes: Iterable[str]) -> None:
    known = list(signature.dynamic_dimensions)
    for name in sizes:
        if name not in known:
            remedy = f"it has: {', '.join(known)}" if known else "all its shapes are fixed"
            raise InputError(f"--dim {name}", "the package has no such dynamic dimension", remedy)


def describe_nonfinite(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Inputs with values that are not finite, one line each: a package's results for NaN may look plausible."""
    lines = []
    for name, array in arrays.items():
        if array.dtype.kind in "fV" and (bad := int(np.count_nonzero(~np.isfinite(array)))):
            kind = "NaN" if np.isnan(array).any() else "infinity"
            lines.append(
                f"input '{name}' holds {kind} ({bad} of {counted(array.size, 'value')} {'is' if bad == 1 else 'are'} not finite)"
            )
    return lines


def as_array(where: str, value: Any) -> np.ndarray:
    """Convert a value to an array.

    Raises:
        InputError: it cannot be converted, such as lists of several lengths, a tensor on a GPU, or a file's name.
    """
    if isinstance(value, str | bytes | os.PathLike):
        remedy = (
            "read the file first: numpy.load, or PIL.Image.open; `tvmake run -i FILE` reads images and arrays itself"
        )
        raise InputError(where, f"expected an array (got {str(value)[:60]!r})", remedy)
    if getattr(value, "requires_grad", False):
        value = value.detach()  # a tensor of PyTorch: numpy refuses those that take part in differentiation
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(where, f"cannot become an array: {reason(error)}", "use a numpy array") from None


def describe_tensor(spec: TensorSpec) -> str:
    """An input or output in words: name, type and shape."""
    return f"'{spec.name}' {spec.dtype} [{', '.join(map(str, spec.shape))}]"


def _inputs(signature: Signature) -> str:
    return "; ".join(map(describe_tensor, signature.inputs))


def _names(signature: Signature) -> dict[str, str]:
    """The accepted names of each input, with its name in the source."""
    return {alias: spec.name for spec in signature.inputs for alias in (spec.relax_name, spec.name)}


def _split_name(signature: Signature, text: str) -> tuple[str | None, str]:
    name, equals, file = text.partition("=")
    known = _names(signature)
    if not text or (equals and not (name and file)):
        raise InputError(f"--input '{text}'", "has no input, or no file", "write FILE, or INPUT=FILE")
    if equals and name in known:
        return known[name], file
    if equals and "/" not in name and not Path(text).exists():
        raise InputError(name, "the package has no such input", f"it takes {_inputs(signature)}")
    return None, text


def _next_input(
    signature: Signature, arrays: Iterable[str], images: Iterable[str], *, is_image: bool, path: Path
) -> str:
    """The input for a file without a name; further images belong to the same input."""
    if is_image and (started := list(images)):
        return started[-1]
    free = [spec.name for spec in signature.inputs if spec.name not in {*arrays, *images}]
    if not free:
        raise InputError(str(path), "all inputs have files already", f"the package takes {_inputs(signature)}")
    return free[0]


def _check_once(text: str, names: Iterable[str], given: Collection[str]) -> None:
    if duplicate := next((name for name in names if name in given), None):
        raise InputError(f"--input '{text}'", f"input '{duplicate}' has another file already", "use one of them")


def _spec(signature: Signature, name: str) -> TensorSpec:
    return next(spec for spec in signature.inputs if spec.name == name)


def _array(path: Path) -> np.ndarray:
    try:
        return read_array_file(path)
    except DAMAGE as error:
        raise InputError(str(path), f"cannot be read: {reason(error)}", "write the file with numpy.save") from None


def _from_archive(signature: Signature, path: Path) -> Arrays:
    known = _names(signature)
    try:
        with open_arrays(path) as archive:
            names = list(archive.files)
            arrays = {name: array_of(archive, name) for name in names if name in known}
    except DAMAGE as error:
        raise InputError(str(path), f"cannot be read: {reason(error)}", "write the file with numpy.savez") from None
    if unknown := [name for name in names if name not in known]:
        raise InputError(str(path), f"the package has no input '{unknown[0]}'", f"it takes {_inputs(signature)}")
    if not arrays:
        raise InputError(str(path), "has no arrays", f"the package takes {_inputs(signature)}")
    return {known[name]: array for name, array in arrays.items()}


def _batch(spec: TensorSpec, files: list[Path], preprocessing: Preprocessing) -> np.ndarray:
    batch, *sample = concrete_shape(spec, {})
    if not sample:
        raise InputError(
            str(files[0]), f"an image cannot be converted to {describe_tensor(spec)}", "use an .npy or .npz"
        )
    if isinstance(spec.shape[0], int) and batch != len(files):
        raise InputError(
            str(files[0]), f"{counted(len(files), 'image')} for {describe_tensor(spec)}", f"use {batch} of them"
        )
    convert = ImagePreprocessor(preprocessing, tuple(sample), numpy_dtype(spec), f"input '{spec.name}'", is_file=True)
    rows = FileRows(files[0].parent, files, None, [])
    try:
        images = [rows.sample(number) for number in range(len(files))]
    except InputError as error:
        raise InputError(error.where, error.problem, "use an image that an image viewer shows") from None
    try:
        return np.stack([convert(image, rows.where(number)) for number, image in enumerate(images)])
    except InputError as error:
        remedy = "set the conversion: --preprocess resize=…, crop=…, color=…, layout=…"
        raise InputError(error.where, error.problem, remedy) from None


def _sizes(spec: TensorSpec, array: np.ndarray) -> dict[str, int]:
    """An array's sizes of dynamic dimensions, by name."""
    pairs = zip(spec.shape, array.shape, strict=False)
    return {declared: extent for declared, extent in pairs if isinstance(declared, str) and declared.isidentifier()}


def _match(spec: TensorSpec, array: np.ndarray, dims: Mapping[str, int]) -> np.ndarray:
    """The array with the input's type, for the sizes of the dynamic dimensions."""
    dtype = numpy_dtype(spec)
    if array.shape == spec.shape and array.dtype == dtype and array.flags.c_contiguous:
        return array  # the usual case; the checks below would take longer than a short network
    what = f"{array.dtype} [{', '.join(map(str, array.shape))}]"
    if array.shape != concrete_shape(spec, dims):
        raise InputError(f"input '{spec.name}'", f"is {what}, and the package takes {describe_tensor(spec)}")
    is_number = array.dtype == dtype or (array.dtype.kind in "biuf" and dtype.kind in "biufV")
    with np.errstate(all="ignore"):
        cast = array.astype(dtype, copy=False) if is_number else array
    keeps = dtype.kind not in "iub" or (array.dtype.kind in "iub" and np.array_equal(cast, array))
    if is_number and not keeps and array.dtype.kind in "iub":
        remedy = f"the array is {array.dtype}; the package takes {describe_tensor(spec)}"
        raise InputError(f"input '{spec.name}'", describe_lost_value(array, cast), remedy)
    if not (is_number and keeps):
        raise InputError(f"input '{spec.name}'", f"is {what}, and the package takes {describe_tensor(spec)}")
    if cast is not array and (lost := array[np.isfinite(array) & ~np.isfinite(cast)]).size:
        raise InputError(
            f"input '{spec.name}'", f"has the value {lost[0]:g}, which {spec.dtype} cannot represent", "scale it down"
        )
    return np.ascontiguousarray(cast).reshape(cast.shape)


def _check_indices(spec: TensorSpec, array: np.ndarray) -> None:
    """Refuse indices that are beyond the table from which they select: kernels would read beyond its buffer."""
    if spec.indices is None or not array.size:
        return
    least, most = spec.indices
    low, high = int(array.min()), int(array.max())
    if low < least or high > most:
        problem = f"has the index {high if high > most else low}, and the table has {counted(most + 1, 'row')}"
        raise InputError(f"input '{spec.name}'", problem, f"use indices from {least} to {most}")


def _generate(spec: TensorSpec, fill: Fill, seed: int, dims: Mapping[str, int]) -> np.ndarray:
    if fill == "random":
        return random_tensor(spec, 0, seed, dims)
    return np.full(concrete_shape(spec, dims), 0 if fill == "zeros" else 1, numpy_dtype(spec))
