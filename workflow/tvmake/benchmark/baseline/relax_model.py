"""Relax modules, compiled by TVM's default pipeline without tuning."""

import os

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.benchmark.baseline.prepared import Prepared
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.relax_module import plain
from tvmake.validate.runtime import library_version


def prepare(
    source: str, options: ImportOptions, signature: Signature, inputs: dict[str, np.ndarray], threads: int
) -> Prepared:
    """The compiled module with its inputs.

    Raises:
        InputError: the function returns no usable module, or TVM cannot compile it.
    """
    os.environ["TVM_NUM_THREADS"] = str(threads)
    call, _ = plain(source, options)
    return Prepared(library_version("apache-tvm"), call([inputs[spec.name] for spec in signature.inputs]))
