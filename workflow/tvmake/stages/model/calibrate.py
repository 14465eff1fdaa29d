"""Calibrate: run the float network on the model's data, and record the ranges of tensors that become 8-bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.calibrating import CalibrateRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.user_files import user_files
from tvmake.transform.options import FLOAT_POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from tvmake.artifact.calibration import Calibration
    from tvmake.artifact.signature import Signature
    from tvmake.stages.context import JobContext


def calibrate(module: Path, params: Path, signature: Path, request: CalibrateRequest, calibration: Path) -> Calibration:
    """Write the ranges of tensors that ``int8`` quantises, the bias corrections, and the operators that stay in float32, to ``calibration``.

    Raises:
        InputError: the dataset does not fit the model; a tensor is not finite for a sample.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.calibration import Calibration, Kept, TensorRange
    from tvmake.artifact.module_files import load_module
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.weights.tensors import load_params
    from tvmake.errors import InputError
    from tvmake.quantize.calibrated.bias import measuring
    from tvmake.quantize.calibrated.ranges import Observer, constant_tensors
    from tvmake.quantize.calibrated.repeated import shared_ranges, shared_shifts
    from tvmake.quantize.calibrated.sites import find_sites, return_tensors
    from tvmake.quantize.source.rounding import is_source_in_integers
    from tvmake.transform.graph import float_network
    from tvmake.transform.options import TransformRequest

    known = stage_json.load(Signature, signature)
    transforming = TransformRequest(precision=request.precision, transform=request.transform, dims=request.dims)
    network = float_network(load_module(module), load_params(params), transforming)
    sites = find_sites(network, request.precision.never)
    kept = [Kept(operator=operator, name=name, reason=reason) for operator, name, reason in sites.kept]
    samples = _samples(request, known) if sites.tensors else lambda: iter(())
    if known.states:
        samples = _with_states(samples, known, _runner(network, known))
    tensors = _runner(return_tensors(network, sites.tensors), known)
    observers = [Observer() for _ in sites.tensors]
    names = [str(tensor.name) for tensor in sites.tensors]
    count = 0
    for number, sample in enumerate(samples()):
        count += 1
        for name, observer, values in zip(names, observers, tensors(sample), strict=True):
            if not _is_finite(values):
                raise InputError(
                    request.model,
                    f"int8: '{name}' has NaN or infinities for sample {number} of the calibration data",
                    "correct the data or its preprocessing; at float32, the model's row reports how many the original has",
                )
            observer.extend(values)
    if request.precision.calibration.method != "minmax":
        for sample in samples():
            for observer, values in zip(observers, tensors(sample), strict=True):
                observer.count(values)
    options = request.precision.calibration
    found_ranges = [
        TensorRange(name=name, low=low, high=high, lowest=observer.lowest, highest=observer.highest)
        for name, observer in zip(names, observers, strict=True)
        for low, high in [observer.range(options)]
    ]
    ranges = shared_ranges(sites, found_ranges)
    shifts = []
    if sites.products and options.bias_correction and request.dataset is not None:  # with random inputs it is harmful
        shifts = _mean_shifts(_runner(measuring(network, sites, ranges), known), samples)
        shifts = shared_shifts(sites, ranges, shifts)
    warnings = []
    if not sites.products and not sites.tables:
        warnings.append(
            "nothing is left to quantise: the source is quantised already, and its integers are those of every precision"
            if is_source_in_integers(network)
            else "nothing is quantised: the package computes what float32 does"
        )
    if sites.tensors and request.dataset is None:
        warnings.append(
            f"models.{request.model} has no dataset: ranges come from {count} random inputs, which real data may exceed"
        )
    elif count == 1:
        warnings.append(f"models.{request.model}: ranges come from a single sample; give the dataset more")
    constants = [names[number] for number in constant_tensors(observers)]
    if constants:
        warnings.append(f"the same value for every sample: {', '.join(constants)}")
    result = Calibration(
        data="dataset" if request.dataset else "random",
        samples=count,
        method=options.method,
        ranges=ranges,
        products=len(sites.products),
        tables=len({lookup.args[0] for lookup in sites.tables}),
        shifts=shifts,
        kept=kept,
        warnings=warnings,
    )
    stage_json.save(result, calibration)
    return result


def _is_finite(values: np.ndarray) -> bool:
    import numpy as np

    return bool(np.isfinite(values).all())


def _samples(request: CalibrateRequest, known: Signature) -> Callable[[], Iterator[dict[str, np.ndarray]]]:
    """A function that returns the inputs from the start."""
    from itertools import islice

    from tvmake.artifact.dims import sample_sizes
    from tvmake.validate.dataset import load_dataset
    from tvmake.validate.samples import random_samples

    dims = sample_sizes(request.dims, request.sample_dims)
    if request.dataset is None:
        return lambda: random_samples(known, request.samples, request.seed, dims)
    dataset = load_dataset(request.dataset, known, dims=dims)
    return lambda: (sample.inputs for sample in islice(dataset, request.precision.calibration.samples))


def _mean_shifts(
    shifts: Callable[[dict[str, np.ndarray]], list[np.ndarray]], samples: Callable[[], Iterator[dict[str, np.ndarray]]]
) -> list[list[float]]:
    """The mean of each multiplication's shifts over the samples."""
    import numpy as np

    totals: list[np.ndarray] = []
    count = 0
    for sample in samples():
        count += 1
        shifted = [values.astype(np.float64) for values in shifts(sample)]
        totals = [total + values for total, values in zip(totals, shifted, strict=True)] if totals else shifted
    return [[float(np.float32(value)) for value in total / count] for total in totals]


def _runner(network: Any, known: Signature) -> Callable[[dict[str, np.ndarray]], list[np.ndarray]]:
    """A function from a sample to the outputs of a network."""
    from tvmake.codegen.on_this_machine import runner
    from tvmake.frontend.relax_fixes import lift_constants

    run = runner(*lift_constants(network), len(known.arguments))
    return lambda sample: run([sample[spec.name] for spec in known.arguments])


def _with_states(
    samples: Callable[[], Iterator[dict[str, np.ndarray]]],
    known: Signature,
    run: Callable[[dict[str, np.ndarray]], list[np.ndarray]],
) -> Callable[[], Iterator[dict[str, np.ndarray]]]:
    """The samples as steps of one sequence, each with the states that the network has then."""
    from tvmake.artifact.states import initial_states

    def steps() -> Iterator[dict[str, np.ndarray]]:
        states: dict[str, np.ndarray] = {}
        for sample in samples():
            whole = {**sample, **(states or initial_states(known, sample))}
            yield whole
            following = run(whole)[len(known.outputs) :]
            states = {state.name: value for state, value in zip(known.states, following, strict=True)}

    return steps


def calibrate_request(job: JobContext) -> CalibrateRequest:
    """The float network of one model, and its data."""
    model, validation = job.model_config, job.validation
    drawn = {} if model.dataset else {"samples": validation.samples, "seed": validation.seed}
    return CalibrateRequest(
        model=job.model,
        precision=job.precision_config.model_copy(update={"among": None}),
        transform=job.transform.model_copy(update={"passes": job.user_passes(FLOAT_POINTS), "layout": "keep"}),
        dims=model.dims,
        sample_dims=validation.dims,
        dataset=model.dataset,
        **drawn,
    )


def _dataset_files(request: CalibrateRequest) -> dict[str, Path]:
    from tvmake.config.dataset_files import dataset_files

    # Their names are in messages, so they affect the result.
    return {f"dataset file {file}": Path(file) for file in dataset_files(request.dataset)}


STAGE = Stage(
    name="calibrate",
    summary="Find the ranges of activations for int8.",
    function=calibrate,
    inputs=(
        Input("model.json", "module"),
        Input("model.params", "params"),
        Input("signature.json", "signature"),
        Input(files=lambda job: [*job.dataset_files, *job.pass_files(FLOAT_POINTS)]),
    ),
    outputs=(Output("calibration.json", paths.TRANSFORMED, "calibration", "Ranges to write (JSON).", has_parts=True),),
    logs=(Log("{model}/{precision}/calibrate.log"),),
    request_model=CalibrateRequest,
    request=calibrate_request,
    exists=lambda job: job.precision_config.is_calibrated,
    subject=lambda arguments: f"{arguments['request'].model} int8",
    report=lambda result: (
        *(f"warning: int8: {warning}" for warning in result.warnings),
        result.coverage(),
        f"{len(result.ranges)} ranges from {result.samples} {'samples' if result.data == 'dataset' else 'random inputs'}",
    ),
    reads=lambda arguments: user_files(
        dataset=arguments["request"].dataset, passes=arguments["request"].transform.passes
    ),
    is_hermetic=True,
    recipe=Recipe(
        user_passes=lambda request: request.transform.passes,
        files=_dataset_files,
    ),
    memory_mb=2000,
    minutes=60,
    preload=(
        "tvmake.artifact.module_files",
        "tvmake.artifact.weights.tensors",
        "tvmake.transform.graph",
        "tvmake.codegen.lowering",
    ),
)
