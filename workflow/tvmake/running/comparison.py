"""Compare a package's outputs with a reference: arrays, or the source model in its own framework."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvmake.artifact import stage_json
from tvmake.artifact.signature import Signature
from tvmake.artifact.source import SourceRecord
from tvmake.config.requests.referencing import ReferenceRequest
from tvmake.config.validation import DEFAULT_GOALS, Goals, default_goals
from tvmake.frontend.options import ImportOptions
from tvmake.process.command import run_tvmake
from tvmake.running.arguments import validate_argument
from tvmake.storage.temporary import temporary_directory
from tvmake.validate.numerics import Comparison, NumericsReport
from tvmake.validate.reference.stored import ReferenceSet

Outputs = Mapping[str, np.ndarray]


def goals_of(precision: str, overrides: Mapping[str, Any], is_quantized: bool = False) -> Goals:
    """The goals of a precision, with overrides.

    An unknown precision counts as float32.

    Args:
        is_quantized: whether the source itself rounds activations, to integers or to bfloat16.

    Raises:
        InputError: a goal is unknown, or its bound is impossible.
    """
    chosen = validate_argument(
        "validation.goals", Goals, dict(overrides) if isinstance(overrides, Mapping) else overrides
    )
    return default_goals(precision if precision in DEFAULT_GOALS else "float32", is_quantized).updated(chosen)


def against_arrays(got: Outputs, expected: Outputs, goals: Goals) -> NumericsReport:
    """Compare one run with its expected outputs."""
    comparison = Comparison(goals.model_copy(update={"repeatable": None}))
    comparison.add(expected, got)
    return comparison.report()


def against_model(
    session: Callable[[], Callable[[Outputs], Outputs]],
    signature: Signature,
    options: ImportOptions,
    source_directory: Path,
    samples: int,
    seed: int,
    goals: Goals,
) -> NumericsReport:
    """Compare runs on random inputs with the source model's, which runs in a separate process.

    Args:
        session: begins a sequence of runs.
        source_directory: the base of the source's relative paths.

    Raises:
        InputError: the model cannot be loaded, or its inputs or outputs differ from the package's.
        MachineError: its framework is not installed.
    """
    request = ReferenceRequest(model=options, samples=samples, seed=seed)
    with temporary_directory("tvmake-validate-") as directory:
        described, reference = Path(directory) / "signature.json", Path(directory) / "reference.npz"
        stage_json.save(signature, described)
        # Like an import without knowledge of the weights.
        source = Path(directory) / "source.json"
        kind = str(options.source_format())
        stage_json.save(SourceRecord(source=options.source, format=kind, files={}, notes={}), source)
        request_json = request.model_dump_json(exclude_defaults=True)
        command = ["step", "reference", str(described), str(source)]
        command += ["--options", request_json, "--reference", str(reference)]
        run_tvmake(command, source_directory, shows_progress=False)
        comparison, run = Comparison(goals), session()
        for number, sample in enumerate(ReferenceSet(reference)):
            got = run(sample.inputs)
            comparison.add(sample.outputs, got, sample.labels)
            if number == 0 and goals.repeatable:
                comparison.add_repeat(got, session()(sample.inputs))
        return comparison.report()
