"""StableHLO programs in jax, compiled by XLA. XLA has no setting for the number of threads: it uses the process's cores."""

import os

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.benchmark.baseline.prepared import Prepared
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.jax_program import load_callable
from tvmake.validate.runtime import library_version


def prepare(
    source: str, _options: ImportOptions, signature: Signature, inputs: dict[str, np.ndarray], threads: int
) -> Prepared:
    """The program with its arguments as jax' arrays.

    Raises:
        InputError: jax cannot load the program.
        MachineError: jax is not installed.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    call = load_callable(source)
    import jax

    with jax.enable_x64(True):
        arguments = [jax.device_put(inputs[spec.name], jax.devices("cpu")[0]) for spec in signature.inputs]
    return Prepared(library_version("jax"), lambda: jax.block_until_ready(call(*arguments)))
