"""Seeded random inputs for models without a dataset.

The values of an input, unless the signature has a range:

- floating point: standard normal, clipped to ±2.5. Normalised images and activations are similar, and clipping
  keeps rare values from determining the largest error;
- bool: a fair coin;
- 8-bit integers: the whole range of the type, as quantised models use it;
- wider integers: 0 or 1. They are mostly indices, and an index out of bounds reads invalid memory; 0 and 1 exist in
  every useful table. Set ``inputs.<name>.range`` for more.

With a range, values are uniform in it, both ends included for integers.

A value depends only on the seed, the sample's number and the input's name: not on the other inputs, their order or the
number of samples. The stream is that of numpy's ``RandomState``, which numpy keeps unchanged (NEP 19).
"""

import hashlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tvmake.artifact import tensor_file
from tvmake.artifact.extents import evaluate_extent
from tvmake.artifact.signature import Signature, TensorSpec, is_arithmetic
from tvmake.errors import InputError

CLIP = 2.5


def random_samples(
    signature: Signature,
    count: int,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    shapes: Sequence[Mapping[str, int]] = (),
    steps: int = 0,
) -> Iterator[dict[str, np.ndarray]]:
    """Generate ``count`` inputs, each keyed by the inputs' names in the source model.

    Args:
        dims: sizes of dynamic dimensions by name; default: 1, or their minimum.
        shapes: sizes that alternate from input to input, with states from sequence to sequence; they override ``dims``.
        steps: samples in a sequence, with states; 0: all are one.

    Raises:
        InputError: numpy (with ml_dtypes) lacks an input's dtype, or its range does not match the dtype.
    """
    extents = {**signature.default_sizes, **(dims or {})}
    length = (steps or count) if signature.states else 1
    for number in range(count):
        sizes = {**extents, **(shapes[number // length % len(shapes)] if shapes else {})}
        yield {spec.name: random_tensor(spec, number, seed, sizes) for spec in signature.inputs}


def random_tensor(
    spec: TensorSpec, number: int = 0, seed: int = 0, dims: Mapping[str, int] | None = None
) -> np.ndarray:
    """The ``number``-th random value of one input."""
    name = int.from_bytes(hashlib.sha256(spec.name.encode()).digest()[:8], "big")
    random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, number, name])))
    shape, dtype = concrete_shape(spec, dims), numpy_dtype(spec)
    if dtype.kind == "b":
        return np.asarray(random.randint(0, 2, shape), bool)
    if dtype.kind in "iu":
        low, high = _integer_bounds(spec, dtype)
        # randint's upper bound is exclusive and may be one beyond the type's largest value.
        return np.asarray(random.randint(low, high + 1, shape, dtype=dtype.type), dtype)
    if spec.range is not None:
        least, most = spec.range
        values = least + (most - least) * random.random_sample(shape)
        return np.asarray(values, dtype)
    return np.asarray(np.clip(random.standard_normal(shape), -CLIP, CLIP), dtype)


def write_inputs(file: Path, *samples: Mapping[str, np.ndarray]) -> None:
    """Write samples in the file format for devices."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, arrays in enumerate(samples):
            for name, array in arrays.items():
                tensor_file.write_array(archive, tensor_file.member("input", name, number), array)


def concrete_shape(spec: TensorSpec, dims: Mapping[str, int] | None = None) -> tuple[int, ...]:
    """The shape with the sizes of dynamic dimensions in ``dims``, 1 for missing ones.

    Dimensions that depend on others (``2*s0 + 1``) are computed.

    Raises:
        InputError: a dimension is neither a name nor a sum, difference, product or quotient of names and numbers.
    """
    return tuple(extent if isinstance(extent, int) else _extent(spec, extent, dims or {}) for extent in spec.shape)


def _extent(spec: TensorSpec, extent: str, dims: Mapping[str, int]) -> int:
    if extent in dims:
        return dims[extent]
    if not is_arithmetic(extent):
        return 1
    try:
        return evaluate_extent(extent, lambda name: dims.get(name, 1))
    except ValueError:
        raise InputError(
            spec.name,
            f"cannot work out the extent {extent!r}",
            f"fix it, or the input's shape: `inputs: {{{spec.name}: {{shape: […]}}}}`",
        ) from None


def describe_lost_value(array: np.ndarray, cast: np.ndarray) -> str:
    """The first value of an array of integers that another type of integers, or bool, does not have: ``has the value …``.

    Args:
        cast: the array in that type.
    """
    index = np.unravel_index(int(np.argmax(cast != array)), array.shape)
    where = f" at [{', '.join(map(str, index))}]" if index else ""
    if cast.dtype.kind == "b":
        return f"has the value {array[index]}{where}, and bool has 0 and 1"
    limits = np.iinfo(cast.dtype)
    return f"has the value {array[index]}{where}, out of the range of {cast.dtype}: {limits.min} to {limits.max}"


def numpy_dtype(spec: TensorSpec) -> np.dtype:
    """The numpy dtype of an input or output; bfloat16 and 8-bit floats come from ml_dtypes.

    Raises:
        InputError: there is none (strings, handles).
    """
    try:
        dtype = tensor_file.numpy_dtype(spec.dtype)
    except TypeError:
        dtype = np.dtype(object)
    # ml_dtypes registers its types as void, with values that numpy converts.
    if dtype.kind not in "biuf" and not (dtype.kind == "V" and dtype.names is None and dtype.name != "void"):
        raise InputError(
            spec.name, f"cannot generate values of type {spec.dtype}", "remove or fix this input in the model"
        )
    return dtype


def _integer_bounds(spec: TensorSpec, dtype: np.dtype) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    if spec.range is None:
        return (int(limits.min), int(limits.max)) if dtype.itemsize == 1 else (0, 1)
    low, high = int(np.ceil(spec.range[0])), int(np.floor(spec.range[1]))
    if low > high or low < limits.min or high > limits.max:
        raise InputError(
            spec.name,
            f"no {spec.dtype} is in the range {spec.range[0]:g} to {spec.range[1]:g}"
            if low > high
            else f"the range {spec.range[0]:g} to {spec.range[1]:g} does not fit {spec.dtype}",
            f"correct it: `inputs: {{{spec.name}: {{range: [LOW, HIGH]}}}}`",
        )
    return low, high
