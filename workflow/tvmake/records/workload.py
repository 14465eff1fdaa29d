"""The identity of a kernel, independent of the model: the key under which its records are stored."""

import json
from dataclasses import dataclass
from importlib import metadata

import tvm
import tvm_ffi

from tvmake.storage.files import canonical_json, digest_bytes

GENERATION = f"tvm-{metadata.version('apache-tvm')}"
"""Records are valid for one TVM generation: traces are replayed by primitive and attribute name, and these change."""


@dataclass(frozen=True)
class Workload:
    """One kernel to schedule, for one target."""

    key: str
    """sha256 over the kernel's structure (names left out), its buffers, the target and the TVM generation."""
    module: "tvm.IRModule"
    """The unscheduled kernel as ``main``, in the form that MetaSchedule's traces apply to."""
    target: "tvm.target.Target"


def workload(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> Workload:
    """The workload of a kernel of a fused module."""
    module = _normalize(function)
    identity = {
        # The buffers distinguish kernels whose 64-bit hashes collide by chance.
        "structure": structure(module),
        "buffers": [_buffer(parameter) for parameter in function.params],
        "target": target_identity(target),
        "generation": GENERATION,
    }
    return Workload(digest_bytes(canonical_json(identity).encode()), module, target)


def structure(code: "tvm.IRModule | tvm.tirx.PrimFunc") -> str:
    """TVM's structural hash, 64 bits as hex: equal across processes and for other names."""
    return f"{tvm_ffi.structural_hash(code) & (1 << 64) - 1:016x}"


def target_identity(target: "tvm.target.Target") -> str:
    """Canonical JSON of all attributes of a target that affect candidates or code."""
    return canonical_json(json.loads(str(target)))


def _normalize(function: "tvm.tirx.PrimFunc") -> "tvm.IRModule":
    """Normalise like MetaSchedule's extraction (relax_integration, normalize_mod)."""
    function = function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    return tvm.IRModule({"main": function})


def _buffer(parameter: "tvm.tirx.Var") -> list[str]:
    kind = parameter.ty
    if not hasattr(kind, "shape"):  # a symbolic dimension
        return [str(kind)]
    return [str(kind.dtype), *(str(extent) for extent in kind.shape)]
