"""Pixels to model input.

The steps and their order are the usual ones of ImageNet evaluation (torchvision's ``ImageClassification`` preset:
resize the shorter side with antialiased bilinear interpolation, crop the centre, scale to 0..1, normalise per channel).
"""

import numpy as np

from tvmake.config.dataset import Preprocessing, Size
from tvmake.errors import InputError


class ImagePreprocessor:
    """Converts a stored sample into one model input without its batch axis.

    A sample with the input's shape is only scaled. Otherwise it must be an image, [h, w] or [h, w, 1 or 3], whose colours, size,
    crop and layout are converted to the input's.

    Args:
        input_shape: shape of one sample of the input.
        dtype: the input's dtype.
        where: names dataset and input in messages.
        is_file: samples are decoded image files; their default scale is 1/255 for a floating-point input.

    Raises:
        InputError: ``mean`` or ``std`` does not have one value per channel.
    """

    def __init__(
        self, config: Preprocessing, input_shape: tuple[int, ...], dtype: np.dtype, where: str, *, is_file: bool
    ):
        self.config = config
        self.input_shape = input_shape
        self.dtype = dtype
        self.where = where
        self.is_file = is_file
        default_scale = 1 / 255 if is_file and dtype.kind not in "iub" else 1.0
        self.scale = default_scale if config.scale is None else config.scale
        self.layout = config.layout or _layout(input_shape)
        self.channels = self._channels()
        self.color = config.color or ("gray" if self.channels == 1 else "RGB")
        self._check_normalisation()

    def __call__(self, sample: np.ndarray, where: str) -> np.ndarray:
        """One sample of shape ``input_shape`` and dtype ``dtype``; ``where`` names it.

        Raises:
            InputError: it is not an image that can be converted to ``input_shape``, or has values that the input's integer type
                cannot represent.
        """
        if self._is_ready(sample):
            return self._cast(self._normalise(sample, self.layout), where)
        return self._cast(self._prepare(sample, where), where)

    def _prepare(self, sample: np.ndarray, where: str) -> np.ndarray:
        if len(self.input_shape) not in (2, 3) or sample.ndim not in (2, 3):
            raise self._misfit(sample.shape, where)
        image = self._convert_colors(sample, where)
        image = self._resize_and_crop(image, where)
        values = self._normalise(image, "NHWC")
        values = values[:, :, 0] if len(self.input_shape) == 2 else values
        values = values.transpose(2, 0, 1) if self.layout == "NCHW" and values.ndim == 3 else values
        if values.shape != self.input_shape:
            raise self._misfit(sample.shape, where, values.shape)
        return values

    def _channels(self) -> int | None:
        if len(self.input_shape) == 2:
            return 1
        if len(self.input_shape) != 3:
            return None
        return self.input_shape[0] if self.layout == "NCHW" else self.input_shape[2]

    def _is_ready(self, sample: np.ndarray) -> bool:
        untouched = self.config.resize is None and self.config.crop is None and self.config.color is None
        return not self.is_file and untouched and sample.shape == self.input_shape

    def _check_normalisation(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self.config, name)
            if isinstance(value, list) and len(value) != self.channels:
                raise InputError(
                    self.where,
                    f"preprocess.{name} has {len(value)} numbers, the input has {self.channels or 'no'} channels",
                    "use one number, or one per channel",
                )

    def _cast(self, values: np.ndarray, where: str) -> np.ndarray:
        if self.dtype.kind in "iub" and values.size and values.dtype != self.dtype:
            whole = np.rint(values) if values.dtype.kind == "f" else values
            low, high = (0, 1) if self.dtype.kind == "b" else (np.iinfo(self.dtype).min, np.iinfo(self.dtype).max)
            # Scaled pixels are rounded; an array without scaling must have integers already.
            fits = np.isfinite(values).all() and whole.min() >= low and whole.max() <= high
            if not fits or (not self._changes_values() and (whole != values).any()):
                raise InputError(
                    where,
                    f"has values from {values.min():g} to {values.max():g} of type {values.dtype}; the input is {self.dtype}",
                    "set preprocess.scale and mean, or store whole numbers that fit",
                )
            values = whole
        return np.ascontiguousarray(values, self.dtype)

    def _changes_values(self) -> bool:
        return (self.scale, self.config.mean, self.config.std) != (1.0, 0.0, 1.0)

    def _normalise(self, values: np.ndarray, layout: str | None) -> np.ndarray:
        if not self._changes_values():
            return values
        values = values.astype(np.float32)
        shape = (-1, 1, 1) if layout == "NCHW" and values.ndim == 3 else (-1,)
        mean, std = (
            np.asarray(part, np.float32).reshape(shape) if isinstance(part, list) else np.float32(part)
            for part in (self.config.mean, self.config.std)
        )
        return (values * np.float32(self.scale) - mean) / std

    def _convert_colors(self, sample: np.ndarray, where: str) -> np.ndarray:
        """[h, w, channels] in the channel order that the model wants."""
        image = sample[:, :, None] if sample.ndim == 2 else sample
        if image.shape[2] not in (1, 3) and sample.ndim == 3 and image.shape[0] in (1, 3):
            image = image.transpose(1, 2, 0)
        if image.shape[2] not in (1, 3):
            raise self._misfit(sample.shape, where)
        if self.color == "gray" and image.shape[2] == 3:
            # ITU-R 601-2 luma, as Pillow's convert("L").
            luma = image.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
            luma = np.rint(luma).astype(np.uint8) if image.dtype == np.uint8 else luma
            return luma[:, :, None]
        if self.color != "gray" and image.shape[2] == 1:
            return np.repeat(image, 3, axis=2)
        return image[:, :, ::-1] if self.color == "BGR" else image

    def _resize_and_crop(self, image: np.ndarray, where: str) -> np.ndarray:
        if self.config.resize is not None:
            image = _resize(image, _resize_to(image.shape[:2], self.config.resize))
        if self.config.crop is not None:
            height, width = _pair(self.config.crop)
            if image.shape[0] < height or image.shape[1] < width:
                raise InputError(
                    where,
                    f"is {image.shape[0]}×{image.shape[1]} when it is to be cropped to {height}×{width}",
                    "set preprocess.resize to at least the crop",
                )
            top, left = round((image.shape[0] - height) / 2), round((image.shape[1] - width) / 2)
            image = image[top : top + height, left : left + width]
        return image

    def _misfit(self, shape: tuple[int, ...], where: str, became: tuple[int, ...] | None = None) -> InputError:
        after = f", {list(became)} after preprocessing" if became is not None and became != shape else ""
        return InputError(
            where,
            f"is {list(shape)}{after}; a sample of the model's input is {list(self.input_shape)}",
            "set preprocess.resize, crop, color or layout, or point `dataset.input` at another input",
        )


def _layout(input_shape: tuple[int, ...]) -> str | None:
    if len(input_shape) != 3:
        return None
    return "NHWC" if input_shape[2] in (1, 3) and input_shape[0] not in (1, 3) else "NCHW"


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _resize_to(shape: tuple[int, int], size: Size) -> tuple[int, int]:
    """Height and width after resizing; one number is the shorter side, the other keeps the aspect ratio."""
    if not isinstance(size, int):
        return size
    height, width = shape
    if height <= width:
        return size, max(int(size * width / height), 1)
    return max(int(size * height / width), 1), size


def _resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    from PIL import Image

    def resize(plane: np.ndarray) -> np.ndarray:
        return np.asarray(Image.fromarray(plane).resize((size[1], size[0]), Image.Resampling.BILINEAR))

    # Pillow resizes planes of uint8 or float32; its bilinear filter antialiases when it shrinks.
    values = image if image.dtype == np.uint8 else image.astype(np.float32)
    return np.stack([resize(np.ascontiguousarray(values[:, :, i])) for i in range(image.shape[2])], axis=2)
