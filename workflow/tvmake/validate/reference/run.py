"""Run the source model in its own framework on given inputs.

The runtimes use one thread and deterministic kernels, so that the same machine gives the same bits again. Each has its own
module, imported when needed: LiteRT is not needed for an ONNX model.
"""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import tee

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.artifact.source import SourceRecord
from tvmake.artifact.states import initial_states
from tvmake.errors import InputError
from tvmake.frontend.fixed_inputs import complete_inputs, fixed_inputs
from tvmake.frontend.foreign import foreign
from tvmake.frontend.formats import RUNTIMES
from tvmake.frontend.options import ImportOptions
from tvmake.validate.dataset import Sample
from tvmake.validate.reference.stored import ReferenceSample
from tvmake.validate.runtime import Runtime

Tensors = dict[str, np.ndarray]


def open_reference(source: str, options: ImportOptions, signature: Signature) -> Runtime:
    """The source model, loaded and ready to run.

    Args:
        source: ``options.source`` as a path relative to the working directory.
        signature: names, order, shapes and dtypes from the import stage.

    Raises:
        InputError: the model cannot be loaded, or its inputs or outputs differ from the signature.
        MachineError: the library that runs this format is not installed.
    """
    module = RUNTIMES.get(options.source_format() or "")
    if module is None:
        raise InputError(source, "the model's format is unknown", "set models.<name>.format")
    fixed = fixed_inputs(options)
    own = signature.of_source
    whole = own if fixed is None else fixed.complete(own)
    runtime: Runtime = importlib.import_module(module).open_model(source, options, whole)
    return replace(runtime, run=lambda inputs: runtime.run(complete_inputs(inputs, fixed)))


def open_imported(options: ImportOptions, signature: Signature, imported: SourceRecord) -> Runtime:
    """The source model, loaded and ready to run, after checking that it is the imported one.

    Args:
        imported: the record of the import stage.

    Raises:
        InputError: as :func:`open_reference`, or the model's files have changed since the import, or a factory generated other
            weights.
        MachineError: the library that runs this format is not installed.
    """
    imported.check_files()
    weights = imported.notes.get("weights")
    with foreign(options):
        runtime = open_reference(options.source, options, signature)
    if runtime.weights and weights and runtime.weights != weights:
        raise InputError(
            options.source,
            f"gives other weights each time: sha256 {str(weights)[:12]}… at import, {runtime.weights[:12]}… now",
            "draw all of them from the random states that `seed` sets (random, numpy.random, torch), or load them from a file",
        )
    return runtime


def with_outputs(
    runtime: Runtime, signature: Signature, samples: Iterable[Sample], steps: int = 0
) -> Iterator[ReferenceSample]:
    """Each sample with the model's outputs.

    Args:
        steps: as for :func:`reference_outputs`.

    Raises:
        InputError: the model cannot be run on these inputs.
    """
    ahead, samples_again = tee(samples)
    outputs = reference_outputs(runtime, signature, (sample.inputs for sample in ahead), steps)
    for sample, result in zip(samples_again, outputs, strict=True):
        yield ReferenceSample(sample.inputs, result, sample.labels, sample.truth)


def reference_outputs(
    runtime: Runtime, signature: Signature, samples: Iterable[Tensors], steps: int = 0
) -> Iterator[Tensors]:
    """Outputs of the source model, one for each sample, both keyed by names in the source.

    Args:
        samples: inputs of concrete shapes.
        steps: the number of samples in a sequence, with each of which states restart; 0: all are one.

    Raises:
        InputError: the model cannot be run on these inputs.
    """
    states: Tensors = {}
    fed = [state for state in signature.states if state.places is not None]
    for number, sample in enumerate(samples):
        if number == 0 or (steps and number % steps == 0):
            runtime.reset()
            begin = initial_states(signature.with_source_states, sample)
            states = {state.name: begin[state.name] for state in fed}
        outputs = runtime.run({**sample, **states})
        states = {state.name: np.asarray(outputs[state.next.name]) for state in fed}
        yield {spec.name: np.asarray(outputs[spec.name]) for spec in signature.outputs}
