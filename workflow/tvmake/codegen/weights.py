"""Pack a model's parameters for its tuned kernels once, when the package is built."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.targets.weights.prepack import Packing


def packed_weights(
    params: Mapping[str, Any], packings: Sequence[Packing], names: Sequence[str]
) -> dict[str, "tvm.runtime.Tensor"]:
    """The parameters of ``main``.

    Packing only copies, and fills unused space with zeros, so equal parameters give equal bytes on every machine and
    target.
    """
    # Calls of one kernel share its packing.
    functions = {packing.function: f"packing_{number}" for number, packing in enumerate(packings)}
    library = tvm.compile(
        tvm.IRModule({name: function.with_attr("global_symbol", name) for function, name in functions.items()}),
        target=tvm.target.Target({"kind": "llvm"}),
    )
    tensors_by_name = dict(params)
    for packing in packings:
        tensors = [_zeros(parameter.ty) for parameter in packing.function.params[len(packing.sources) :]]
        library[functions[packing.function]](*(tensors_by_name[source] for source in packing.sources), *tensors)
        tensors_by_name |= dict(zip(packing.results, tensors, strict=True))
    return {name: tensors_by_name[name] for name in names}


def _zeros(ty: Any) -> "tvm.runtime.Tensor":
    return tvm.runtime.tensor(np.zeros([int(extent) for extent in ty.shape], numpy_dtype(str(ty.dtype))))
