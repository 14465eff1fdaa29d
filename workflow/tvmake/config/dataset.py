"""``dataset:`` of a model — real inputs, optional labels, and their preprocessing."""

from typing import Annotated, Literal

from pydantic import Field

from tvmake.config.base import LocalPath
from tvmake.options import Positive, Strict

Size = Positive | tuple[Positive, Positive]
"""One size for a square (crop) or the shorter side (resize), or (height, width)."""

Factor = Annotated[float, Field(allow_inf_nan=False)]
NonZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Preprocessing(Strict):
    """Convert pixels to model input in the order of the fields: colour, resize, crop, scale, mean, std, layout."""

    color: Literal["RGB", "BGR", "gray"] | None = None
    """Channel order of the model's input. By default gray for one channel, RGB for three."""
    resize: Size | None = None
    """Resize before cropping, bilinear with antialiasing. One number is the length of the shorter side."""
    crop: Size | None = None
    """Crop this size from the centre."""
    scale: Factor | None = None
    """Multiply every value by this. By default 1/255 for image files and 1 for arrays."""
    mean: float | list[float] = 0.0
    """Subtract this after scaling; one number, or one per channel in the order of ``color``."""
    std: NonZero | list[NonZero] = 1.0
    """Divide by this after subtracting the mean; one number, or one per channel."""
    layout: Literal["NCHW", "NHWC"] | None = None
    """Axis order of the model's input. By default derived from its shape: the axis of size 1 or 3 is the channel."""


class DatasetConfig(Strict):
    """The location of the samples, and how many of them to use.

    A sample is one image or one row of an array. One call takes a full batch of samples; a last partial batch is left
    out.
    """

    path: LocalPath
    """An ``.npz`` file of named arrays, a directory of images (one sub-directory a class), or a ``.csv``/``.tsv``
    list of ``file,label`` lines with files relative to the list."""
    images: str = "images"
    """Key of the samples' array in an ``.npz``; its first axis counts samples. A single array beside the labels may have any
    name."""
    labels: str | None = "labels"
    """Key of the class indices in an ``.npz``; null for no labels."""
    input: str | None = None
    """Name, in the source, of the model input that receives the images. By default the first input that ``arrays`` does
    not name."""
    arrays: dict[str, str] = Field(default_factory=dict)
    """Further model inputs, each with the ``.npz`` key that feeds it, without preprocessing."""
    truth: list[str] = Field(default_factory=list)
    """Keys of an ``.npz`` whose rows are passed with the samples to your own metrics: boxes, masks, next tokens."""
    limit: Positive | None = 1000
    """Use at most this many samples, drawn with ``seed``; null uses all."""
    seed: int = Field(default=0, ge=0)
    """Seed of the draw."""
    label_names: LocalPath | list[str] | None = None
    """Class names in order: a list, or a text file with one name per line."""
    preprocess: Preprocessing = Preprocessing()
    """Preprocessing of a sample into the model's input."""
