"""The result of every frontend."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tvmake.artifact.signature import Signature

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class ImportedModel:
    """A network in Relax, with its parameters stored separately.

    ``module`` has one entry function ``main`` whose leading arguments are the model's inputs (in the order of
    ``signature.inputs``) and whose trailing arguments are the parameters, in the order of ``params``. Parameter
    keys are the Relax argument names; values are numpy arrays or TVM tensors of exactly the annotated shape and
    dtype. ``main`` returns a tensor, or a flat tuple in the order of ``signature.outputs``.
    ``notes`` has facts for source.json (format, opset, producer, changes by preparation).
    ``framework_rounds``: the original framework rounds activations to integers where ``module`` does not.
    ``state``: inputs that the source itself knows to be states, as ``state`` of a config has them.
    """

    module: "tvm.IRModule"
    params: dict[str, np.ndarray]
    signature: Signature
    notes: dict[str, str | int | list[str]] = field(default_factory=dict)
    framework_rounds: bool = False
    state: dict[str, str] = field(default_factory=dict)
