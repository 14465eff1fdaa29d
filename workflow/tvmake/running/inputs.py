"""The inputs of one run: arrays and pictures from files, or made up."""

import os
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tvmake.artifact.array_files import array_of, open_arrays, read_array_file
from tvmake.artifact.extents import check_extents
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.artifact.tensor_file import DAMAGE, member, reason, write_array
from tvmake.config.dataset import Preprocessing
from tvmake.errors import InputError
from tvmake.process.output import counted
from tvmake.running.arguments import checked
from tvmake.validate.dataset_sources import IMAGE_SUFFIXES, FileRows
from tvmake.validate.preprocess import ImagePreprocessor
from tvmake.validate.samples import concrete_shape, numpy_dtype, random_tensor

Fill = Literal["random", "zeros", "ones"]

Arrays = dict[str, np.ndarray]


def inputs_from_files(signature: Signature, given: Sequence[str], preprocessing: Preprocessing) -> Arrays:
    """The inputs that files hold, by their names in the source model.

    Args:
        given: ``FILE`` or ``INPUT=FILE`` each. An ``.npz`` holds arrays by input; an ``.npy`` or pictures are for the
            input that is named, else for the only one, or the first without a file. Several pictures make a batch.
        preprocessing: from pixels to the input.

    Raises:
        InputError: a file cannot be read, or holds something else than the input takes.
    """
    arrays: Arrays = {}
    pictures: dict[str, list[Path]] = {}
    for text in given:
        name, file = _named(signature, text)
        path = Path(file)
        suffix = path.suffix.lower()
        if not path.is_file():
            problem = "no such file" if not path.exists() else "is a directory" if path.is_dir() else "is no plain file"
            raise InputError(file, problem, f"give files of {_inputs(signature)}")
        if suffix == ".npz":
            if name is not None:
                raise InputError(str(path), "names its inputs itself", f"give it without '{name}='")
            held = _from_archive(signature, path)
            _check_once(text, held, {*arrays, *pictures})
            arrays |= held
            continue
        if suffix not in (".npy", *IMAGE_SUFFIXES):
            kinds = f".npz, .npy, {', '.join(sorted(IMAGE_SUFFIXES))}"
            raise InputError(str(path), "not a file of inputs", f"give one of {kinds}")
        name = name or _next_input(signature, arrays, pictures, is_picture=suffix in IMAGE_SUFFIXES, path=path)
        # Further pictures make a batch.
        _check_once(text, [name], {*arrays, *(pictures if suffix == ".npy" else ())})
        if suffix == ".npy":
            arrays[name] = _array(path)
        else:
            pictures.setdefault(name, []).append(path)
    for name, files in pictures.items():
        arrays[name] = _batch(_spec(signature, name), files, preprocessing)
    return arrays


def fitting(signature: Signature, given: Mapping[str, np.ndarray], fill: Fill | None, seed: int = 0) -> Arrays:
    """All inputs, with the element types that the package takes.

    Args:
        given: by the input's name in the source, or in Relax.
        fill: what inputs that nobody gave are made of; None refuses to run without them.

    Raises:
        InputError: an input is unknown, missing, or of another shape or type, or has values that its type cannot hold.
    """
    if fill is not None:
        fill = checked("fill", Fill, fill)
    known = _names(signature)
    found: Arrays = {}
    for name, array in given.items():
        if name not in known:
            raise InputError(name, "the package has no such input", f"it takes {_inputs(signature)}")
        found[known[name]] = as_array(f"input '{name}'", array)
    check_extents(signature, {name: array.shape for name, array in found.items()})
    dims = signature.smallest_extents
    fitted: Arrays = {}
    for spec in signature.inputs:
        if spec.name in found:
            fitted[spec.name] = _fitted(spec, found[spec.name], dims)
    missing = [spec for spec in signature.inputs if spec.name not in fitted]
    if missing and fill is None:
        names = ", ".join(f"'{spec.name}'" for spec in missing)
        raise InputError("inputs", f"nothing was given for {names}", f"the package takes {_inputs(signature)}")
    fitted |= {spec.name: _made(spec, fill or "random", seed, dims) for spec in missing}
    return {spec.name: fitted[spec.name] for spec in signature.inputs}


def not_finite(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """What inputs hold besides numbers, a line for each that does: what a package makes of NaN may look like a result."""
    found = []
    for name, array in arrays.items():
        if array.dtype.kind in "fV" and (bad := int(np.count_nonzero(~np.isfinite(array)))):
            what = "NaN" if np.isnan(array).any() else "infinity"
            found.append(
                f"input '{name}' holds {what} ({bad} of {counted(array.size, 'value')} {'is' if bad == 1 else 'are'} no finite number)"
            )
    return found


def as_array(where: str, value: Any) -> np.ndarray:
    """What numpy makes of a value.

    Raises:
        InputError: nothing, as of lists of several lengths, or of a tensor on a GPU; or it is a text, as a file's name.
    """
    if isinstance(value, str | bytes | os.PathLike):
        remedy = (
            "read the file first: numpy.load, or PIL.Image.open; `tvmake run -i FILE` reads pictures and arrays itself"
        )
        raise InputError(where, f"expected an array (got {str(value)[:60]!r})", remedy)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(where, f"cannot become an array: {reason(error)}", "give an array of numpy's") from None


def write_inputs(arrays: Mapping[str, np.ndarray], file: Path) -> None:
    """Write one sample as devices read it."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            write_array(archive, member("input", name, 0), array)


def described(spec: TensorSpec) -> str:
    """An input or output in words: name, type and shape."""
    return f"'{spec.name}' {spec.dtype} [{', '.join(map(str, spec.shape))}]"


def _inputs(signature: Signature) -> str:
    return "; ".join(map(described, signature.inputs))


def _names(signature: Signature) -> dict[str, str]:
    """What each input may be called, and its name in the source."""
    return {alias: spec.name for spec in signature.inputs for alias in (spec.relax_name, spec.name)}


def _named(signature: Signature, text: str) -> tuple[str | None, str]:
    name, equals, file = text.partition("=")
    known = _names(signature)
    if not text or (equals and not (name and file)):
        raise InputError(f"--input '{text}'", "names no input, or no file", "write FILE, or INPUT=FILE")
    if equals and name in known:
        return known[name], file
    if equals and "/" not in name and not Path(text).exists():
        raise InputError(name, "the package has no such input", f"it takes {_inputs(signature)}")
    return None, text


def _next_input(
    signature: Signature, arrays: Iterable[str], pictures: Iterable[str], *, is_picture: bool, path: Path
) -> str:
    """The input that a file is for which names none; further pictures are for the same one."""
    if is_picture and (begun := list(pictures)):
        return begun[-1]
    free = [spec.name for spec in signature.inputs if spec.name not in {*arrays, *pictures}]
    if not free:
        raise InputError(str(path), "every input has its file already", f"the package takes {_inputs(signature)}")
    return free[0]


def _check_once(text: str, names: Iterable[str], given: Collection[str]) -> None:
    if twice := next((name for name in names if name in given), None):
        raise InputError(f"--input '{text}'", f"input '{twice}' has another file already", "give one of them")


def _spec(signature: Signature, name: str) -> TensorSpec:
    return next(spec for spec in signature.inputs if spec.name == name)


def _array(path: Path) -> np.ndarray:
    try:
        return read_array_file(path)
    except DAMAGE as error:
        raise InputError(str(path), f"cannot be read: {reason(error)}", "write numbers with numpy.save") from None


def _from_archive(signature: Signature, path: Path) -> Arrays:
    known = _names(signature)
    try:
        with open_arrays(path) as archive:
            names = list(archive.files)
            arrays = {name: array_of(archive, name) for name in names if name in known}
    except DAMAGE as error:
        raise InputError(str(path), f"cannot be read: {reason(error)}", "write numbers with numpy.savez") from None
    if unknown := [name for name in names if name not in known]:
        raise InputError(str(path), f"the package has no input '{unknown[0]}'", f"it takes {_inputs(signature)}")
    if not arrays:
        raise InputError(str(path), "holds no arrays", f"the package takes {_inputs(signature)}")
    return {known[name]: array for name, array in arrays.items()}


def _batch(spec: TensorSpec, files: list[Path], preprocessing: Preprocessing) -> np.ndarray:
    batch, *sample = concrete_shape(spec, {})
    if not sample:
        raise InputError(str(files[0]), f"a picture cannot become {described(spec)}", "give an .npy or .npz")
    if isinstance(spec.shape[0], int) and batch != len(files):
        raise InputError(
            str(files[0]), f"{counted(len(files), 'picture')} for {described(spec)}", f"give {batch} of them"
        )
    convert = ImagePreprocessor(preprocessing, tuple(sample), numpy_dtype(spec), f"input '{spec.name}'", is_file=True)
    rows = FileRows(files[0].parent, files, None, [])
    try:
        pictures = [rows.sample(number) for number in range(len(files))]
    except InputError as error:
        raise InputError(error.where, error.problem, "give a picture that an image viewer shows") from None
    try:
        return np.stack([convert(picture, rows.where(number)) for number, picture in enumerate(pictures)])
    except InputError as error:
        remedy = "say how it becomes the input: --preprocess resize=…, crop=…, color=…, layout=…"
        raise InputError(error.where, error.problem, remedy) from None


def _fitted(spec: TensorSpec, array: np.ndarray, dims: dict[str, int]) -> np.ndarray:
    """The array as the input takes it; extents that the input leaves open are noted in ``dims``."""
    dtype = numpy_dtype(spec)
    if array.shape == spec.shape and array.dtype == dtype and array.flags.c_contiguous:
        return array  # as nearly all are; the rest would cost more than a short network
    what = f"{array.dtype} [{', '.join(map(str, array.shape))}]"
    for wanted, extent in zip(spec.shape, array.shape, strict=False):
        if isinstance(wanted, str) and wanted.isidentifier():
            dims[wanted] = extent
    if array.shape != concrete_shape(spec, dims):
        raise InputError(f"input '{spec.name}'", f"is {what}, and the package takes {described(spec)}")
    is_number = array.dtype == dtype or (array.dtype.kind in "biuf" and dtype.kind in "biufV")
    with np.errstate(all="ignore"):
        cast = array.astype(dtype, copy=False) if is_number else array
    keeps = dtype.kind not in "iub" or (array.dtype.kind in "iub" and np.array_equal(cast, array))
    if not (is_number and keeps):
        raise InputError(f"input '{spec.name}'", f"is {what}, and the package takes {described(spec)}")
    if cast is not array and (lost := array[np.isfinite(array) & ~np.isfinite(cast)]).size:
        raise InputError(f"input '{spec.name}'", f"holds {lost[0]:g}, which is beyond {spec.dtype}", "scale it down")
    return np.ascontiguousarray(cast).reshape(cast.shape)


def _made(spec: TensorSpec, fill: Fill, seed: int, dims: Mapping[str, int]) -> np.ndarray:
    if fill == "random":
        return random_tensor(spec, 0, seed, dims)
    return np.full(concrete_shape(spec, dims), 0 if fill == "zeros" else 1, numpy_dtype(spec))
