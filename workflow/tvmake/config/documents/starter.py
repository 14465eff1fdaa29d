"""The commented config that ``tvmake init`` writes for one model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from tvmake.config.root import RESERVED_MODEL_NAMES
from tvmake.process.output import drop_accents, printable

SPATIAL = 224

BATCH = "batch"

SIZES = {"height": SPATIAL, "width": SPATIAL, "length of a sequence": 128, "length of a signal": 16000, BATCH: 1}
"""A typical size of an axis, by what it is taken for."""

IMAGE_CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class StarterInput:
    """One input as the model declares it; ``shape`` has integers, and names for dynamic dimensions."""

    name: str
    shape: Sequence[int | str]
    dtype: str
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class StarterDecoder:
    """What is known of a language model."""

    sequence: str | None
    """The dimension of new tokens; None if their number is fixed."""
    past: str
    """The dimension of earlier positions."""
    context: int | None
    """The greatest number of positions."""
    batch: str | None = None
    """The dimension of a batch, which is fixed to 1."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Entries of ``inputs``, as YAML."""


Bounds = Mapping[str, tuple[int, int | None]]
"""Smallest and largest sizes of dynamic dimensions, by name, if the model declares them."""


def starter(
    source: str,
    inputs: Sequence[StarterInput],
    kind: str,
    arguments: dict[str, object] | None = None,
    bounds: Bounds | None = None,
    files: Sequence[str] = (),
    state: Mapping[str, str] | None = None,
    decoder: StarterDecoder | None = None,
) -> str:
    """Return a config for ``source`` as YAML text, with every useful key set or in a comment.

    Args:
        inputs: the model's inputs, if they are known.
        kind: the source's format, as in ``models.*.format``.
        arguments: a zoo network's arguments with their defaults, for the comment.
        bounds: bounds of dynamic dimensions.
        files: further files that the model reads.
        state: inputs that seem to be states, with the outputs that seem to be their next values.
        decoder: of a language model, whose keys are set.
    """
    if decoder is not None:
        model = "\n".join([*source_lines(source, kind, files), *_decoder(decoder, state or {}), *_TOKENS])
    else:
        model = _model(source, inputs, kind, arguments or {}, bounds or {}, files, state or {})
    parts = [head(source), model, AXES, STAGES]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def model_name(source: str) -> str:
    """Derive a name for a model's results from its source."""
    stem = re.split(r"[/\\:]", source.rstrip("/"))[-1]
    stem = re.sub(r"\.(onnx|pt2|pt|jit|torchscript|tflite|mlir|mlirbc)$", "", stem, flags=re.IGNORECASE)
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", drop_accents(stem)).strip("_-")[:60] or "model"
    return f"{name}_model" if name in RESERVED_MODEL_NAMES else name


PAST = re.compile("past|cache")
"""Names of dimensions that count earlier positions."""


def dynamic_sizes(inputs: Sequence[StarterInput], bounds: Bounds | None = None) -> dict[str, int]:
    """Return an initial size of each dynamic dimension: 1 for a batch, a guess within its bounds for others."""
    sizes: dict[str, int] = {}
    for entry in inputs:
        for axis, extent in enumerate(entry.shape):
            if isinstance(extent, str):
                for name in re.findall(r"[A-Za-z_]\w*", extent):
                    least, most = (bounds or {}).get(name, (1, None))
                    size = max(least, _guess(name, axis, entry))
                    sizes.setdefault(name, size if most is None else min(size, most))
    return sizes


def example_bounds(name: str, size: int, bounds: tuple[int, int | None] | None) -> str:
    """Return bounds for a dimension of this typical size, as in a config.

    They have a minimum only if the model states one, or if the dimension counts a past, which is empty in the first step.
    """
    least, most = bounds or (0 if PAST.search(name.lower()) else None, None)
    largest = most or max(8, 4 * size)
    return f"{{max: {largest}}}" if least is None else f"{{min: {least}, max: {largest}}}"


def axes_of(name: str, inputs: Sequence[StarterInput]) -> str:
    """What a dimension is taken for, with the first axis that has it: ``batch, axis 0 of image``."""
    for entry in inputs:
        for axis, extent in enumerate(entry.shape):
            if extent == name:
                meaning, where = _meaning(name, axis, entry), printable(f"axis {axis} of {entry.name}")
                return where if meaning in ("", name) else f"{meaning}, {where}"
    return "part of other dimensions"


def _meaning(name: str, axis: int, entry: StarterInput) -> str:
    """A guess at what an axis counts, from its position and name; empty without one."""
    rank, lower = len(entry.shape), name.lower()
    if re.search("seq|len|token|time|step|frame|^t$", lower):
        return "length of a sequence"
    if axis == 0 and rank > 1:
        return BATCH
    if lower in ("height", "h") or (rank == 4 and axis == 2 and entry.shape[1] in IMAGE_CHANNELS):
        return "height"
    if lower in ("width", "w") or (rank == 4 and axis == 3 and entry.shape[1] in IMAGE_CHANNELS):
        return "width"
    if entry.dtype.startswith("float") and rank <= 2:
        return "length of a signal"
    return "length of a sequence" if entry.dtype.startswith("int") else ""


def _guess(name: str, axis: int, entry: StarterInput) -> int:
    meaning = _meaning(name, axis, entry)
    return SIZES.get(meaning, SPATIAL if len(entry.shape) == 4 and axis else 1)


def head(source: str) -> str:
    return f"""
# tvmake config for {yaml_text(source)}.
#
#   tvmake check      check this file and list the results it would make
#   tvmake make       import, build, validate and time everything below that is not up to date
#
# Only `models` is required: commented keys show their default or an example.
"""


def _model(
    source: str,
    inputs: Sequence[StarterInput],
    kind: str,
    arguments: dict[str, object],
    bounds: Bounds,
    files: Sequence[str],
    state: Mapping[str, str],
) -> str:
    lines = source_lines(source, kind, files)
    lines += format_lines(kind, arguments)
    lines += input_comments(inputs, kind)
    if state:
        pairs = ", ".join(f"{yaml_text(given)}: {yaml_text(returned)}" for given, returned in state.items())
        lines += [
            "    # Inputs whose next value is an output, by their names. With this key the package keeps them from run to run.",
            f"    # state: {{{pairs}}}",
        ]
    lines += dimension_comments(inputs, bounds)
    return "\n".join([*lines, *_DATASET.strip("\n").splitlines()])


def format_lines(kind: str, arguments: dict[str, object]) -> list[str]:
    """The keys of a format."""
    lines: list[str] = []
    if kind == "factory":
        lines += [
            "    trusted: true  # a factory is Python code; the import calls it only with this line",
            "    # arguments: {width: 32}  # its keyword arguments",
            "    # seed: 0  # seeds PyTorch before the call",
        ]
    if kind == "keras":
        lines.append("    trusted: true  # loading a Keras model can run code in the file; it fails without this line")
    if kind == "torchscript":
        lines.append("    trusted: true  # loading a TorchScript archive runs its code; it fails without this line")
    if kind == "pt2":
        lines.append("    # trusted: false  # true lets a file with custom objects run its code")
    if kind == "zoo":
        listed = yaml.safe_dump(arguments, default_flow_style=True, sort_keys=False, width=2**30).strip()
        lines.append(
            "    # The zoo's weights are random and calibrated, not trained: good for timing, not for accuracy."
        )
        lines.append("    # seed: 0  # of the weights")
        lines.append(f"    # arguments: {listed}  # these are the defaults")
    return lines


def source_lines(source: str, kind: str, files: Sequence[str]) -> list[str]:
    lines = [
        "models:",
        f"  {yaml_text(model_name(source))}:  # name of its results",
        f"    source: {yaml_text(source)}{'' if kind in ('zoo', 'factory') else '  # relative to the directory tvmake works in'}",
    ]
    if files:
        lines.append(f"    files: [{', '.join(map(yaml_text, files))}]  # with weights of the model")
    return lines


STEPS = 32
"""Tokens of a sequence in validation."""


def _decoder(decoder: StarterDecoder, state: Mapping[str, str]) -> list[str]:
    lines = []
    if decoder.inputs:
        lines += [
            "    # Tokens that random inputs have, and inputs that always have one value.",
            "    inputs:",
            *(f"      {yaml_text(name)}: {entry}" for name, entry in decoder.inputs.items()),
        ]
    if state:
        lines += [
            "    # Keys and values of earlier positions, with their next values: the package keeps them from run to run.",
            "    state:",
            *(f"      {yaml_text(given)}: {yaml_text(returned)}" for given, returned in state.items()),
        ]
    batch, past = (yaml_text(name) if name else "" for name in (decoder.batch, decoder.past))
    most = decoder.context - 1 if decoder.context else 2047
    known = f"the model's context has {decoder.context}" if decoder.context else "the model states no limit"
    lines += [
        f"    # Earlier positions; {known}. A smaller maximum needs less memory.",
        f"    dims: {{{f'{batch}: 1, ' if batch else ''}{past}: {{min: 0, max: {most}}}}}",
    ]
    if decoder.sequence:
        lines += [
            "    # Code of its own for single tokens; prompts of other lengths take the dynamic code. If their length gets a maximum",
            f"    # in `dims` too (`{decoder.sequence}: {{max: 512}}`), memory is planned once.",
            f"    shapes: [{{{yaml_text(decoder.sequence)}: 1}}]",
        ]
    lines += [
        "    # Sequences of single tokens. The first one continues with the tokens that the original model chooses.",
        f"    validation: {{samples: {2 * min(STEPS, most)}, steps: {min(STEPS, most)}}}",
    ]
    return lines


_TOKENS = """
    # Tokens of texts instead of random ones: an .npz with an array [steps, 1, 1] for the input, a row for each step.
    # dataset: {path: tokens.npz}
""".strip("\n").splitlines()


def input_comments(inputs: Sequence[StarterInput], kind: str) -> list[str]:
    if not inputs and kind == "keras":
        return [
            "    # Sizes of the model's dynamic dimensions. The batch is 1 by default.",
            "    # inputs:",
            "    #   image: {shape: [1, 224, 224, 3]}",
        ]
    if not inputs:
        required = (
            "Required: an archive stores no shapes"
            if kind == "torchscript"
            else "Required unless the factory also returns example inputs"
        )
        return [
            f"    # Arguments of forward(), by name. {required}. A name",
            "    # instead of a size makes a dimension dynamic.",
            "    # inputs:",
            "    #   x: {shape: [1, 3, 224, 224], dtype: float32}",
        ]
    lines = [
        "    # Inputs, which tvmake reads from the model. Set a key to fix a dynamic dimension, or to restrict random",
        "    # inputs to a range (inclusive).",
        "    # inputs:",
    ]
    for entry in inputs:
        shape = ", ".join(yaml_text(extent) if isinstance(extent, str) else str(extent) for extent in entry.shape)
        bounds = f", range: [{entry.range[0]:g}, {entry.range[1]:g}]" if entry.range else ""
        lines.append(f"    #   {yaml_text(entry.name)}: {{shape: [{shape}], dtype: {entry.dtype}{bounds}}}")
        if not entry.shape:
            remark = "if it always has one value, which selects a branch or removes work"
            lines.append(f"    #   {yaml_text(entry.name)}: {{value: 16000}}  # {remark}")
    return lines


def dimension_comments(inputs: Sequence[StarterInput], bounds: Bounds) -> list[str]:
    sizes = dynamic_sizes(inputs, bounds)
    if not sizes:
        return []
    lines = [
        "    # Dynamic dimensions of the model, by name, with what each is taken for. They take every size that the network does.",
        "    # A number fixes one: tiles are chosen for it, and textures and CLML need it. Bounds keep it dynamic: if all have",
        "    # one, memory is planned once, for the largest sizes. Other sizes are refused before the network runs.",
        "    # dims:",
    ]
    for name, size in sizes.items():
        stated = ", as the model states" if name in bounds else ""
        written = example_bounds(name, size, bounds.get(name))
        lines.append(f"    #   {yaml_text(name)}: {written}  # or {size}; {axes_of(name, inputs)}{stated}")
    typical = ", ".join(f"{yaml_text(name)}: {size}" for name, size in sizes.items())
    return [
        *lines,
        "    # Their sizes when the package is validated and timed; by default the smallest that the network takes.",
        f"    # validation: {{dims: {{{typical}}}}}",
    ]


def yaml_text(value: str) -> str:
    """Write a string as a YAML scalar on one line, quoted only if necessary."""
    if re.fullmatch(r"[A-Za-z./][A-Za-z0-9_./:-]*", value) and yaml.safe_load(f"[{value}]") == [value]:
        return value
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=2**30).strip()


_DATASET = """
    # Real inputs for the comparison with the original model. The default is seeded random inputs.
    # dataset:
    #   path: images  # a directory of images (one sub-directory a class), a .csv of file,label lines, or an .npz
    #   limit: 1000  # use at most this many samples; null uses all
    #   label_names: classes.txt  # one name per line
    #   preprocess:  # for images, in this order
    #     resize: 256  # the shorter side
    #     crop: 224
    #     scale: 0.00392156862745098  # 1/255
    #     mean: [0.485, 0.456, 0.406]
    #     std: [0.229, 0.224, 0.225]
    # Goals of every package of this model; a package that misses one is reported as failed. Each precision has
    # defaults (docs/guides/config.md#goals).
    # goals:
    #   top1_drop: 0.005  # at most half a percentage point of accuracy lost; needs labels
    #   max_abs: 0.01  # largest absolute error of any element
    #   per_precision:
    #     float16: {sqnr_db: 25}
"""

AXES = """
# Data types of values and arithmetic. Every model is compiled at every precision.
precisions:
  - float32
  # - float16_acc32  # float16 values, sums in float32
  # - float16        # float16 throughout: fastest on mobile GPUs, least exact
  # - int8           # matmuls in 8-bit integers; give the model a dataset to calibrate their ranges
  # - int8_weights   # weights of matmuls in 8 bits, the rest unchanged; needs no dataset
  # - int4_weights   # the same in 4 bits

# Targets. Every model and precision is compiled for every target; `tvmake targets` lists those of this TVM.
targets:
  cpu: {kind: llvm, mcpu: native}  # this machine: built, validated and timed here
  # Targets without a device are built and exported, not run:
  # aarch64:  # an Arm CPU
  #   kind: llvm
  #   mtriple: aarch64-linux-gnu
  #   mcpu: cortex-a76
  #   cc: aarch64-linux-gnu-g++  # the linker (Debian: apt-get install g++-aarch64-linux-gnu)
  # adreno:  # a Qualcomm GPU through OpenCL
  #   tag: qcom/adreno-opencl
  #   host: {kind: llvm, mtriple: aarch64-linux-gnu, cc: aarch64-linux-gnu-g++}
  # cuda:  # an NVIDIA GPU
  #   kind: cuda
  #   arch: sm_87

# Combinations to leave out, or to add with `include`.
# variants:
#   exclude:
#     - {precision: float16, target: cpu}
"""

STAGES = """
# Graph rewrites between import and build.
# transform:
#   fold_batch_norm: true
#   layout: keep  # or NCHW, NHWC

# build:
#   opt_level: 3
#   dump: []  # generated sources to keep: relax, tir, ll, asm, kernels, passes

# Random inputs of models without a dataset.
# validation: {samples: 16, seed: 0}

# How latency is measured. quick: median of 20 samples, about a second for a small model.
# mlperf-like: 90th percentile of at least 1,024 samples and 60 s, and the time of every kernel.
benchmark:
  profile: quick
  # repeat: 100  # overrides the profile

# Directory of all results.
# results: results
"""
