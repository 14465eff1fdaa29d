"""Estimate the share of a package's time in unscheduled kernels or blocks, and why they have no schedule."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.artifact.manifest import Unscheduled, UnscheduledKernel
from tvmake.artifact.size_points import SizePoint
from tvmake.codegen.dynamic_sizes import representative_sizes
from tvmake.codegen.kernel_analysis import LITTLE_WORK, leaf_blocks
from tvmake.codegen.lowering import Lowered
from tvmake.codegen.scheduling.kernel_parts import KernelPart, kernel_parts
from tvmake.codegen.size_points import kernel_points, network_points
from tvmake.codegen.tunable import why_not_tuned
from tvmake.ir.dimensions import dynamic_dimensions, fix_dimensions
from tvmake.targets.backends import backend_of
from tvmake.targets.cpu.channels_last import LAYOUT_FAILURE
from tvmake.targets.cpu.schedules.rule import schedule_kernel
from tvmake.targets.kernels.scheduled_kernel import is_scheduled
from tvmake.targets.weights.layout_free import tensor_calls

PLAIN_NS = {True: 0.7, False: 0.2}
SCHEDULED_NS = {True: 0.01, False: 0.15}
"""Time of an operation in a CPU kernel, by whether it belongs to a reduction: medians of 31 kernels (convolutions,
matmuls, norms, softmax, pooling, element-wise) on one core of an x86 server with AVX-512, with static and dynamic
dimensions. LLVM vectorises element-wise loops itself, so these only lack the other cores."""

RUNTIME_NS = 10.0
"""Time per element of functions of TVM's runtime: 1.5 for the ten largest of a row, more for a full sort."""

LEAST_SHARE = 0.01
"""Minimum share of a package's time for a kernel to be listed."""

SHORT_REDUCTION = 32
"""Values that a single GPU thread reduces about as fast as several together."""

IMPROVEMENT = 2
"""Speed-up of the plain parts from which a fixed dimension counts as giving a kernel its schedule."""

RULES_ARE_OFF = "build.schedule_rules is false; leave it out"
DEFAULT_RULE = (
    "no rule of tvmake takes it, and by TVM's general one each thread reduces all values of a result by itself"
)
NO_RULES = "tvmake has no rules for targets of kind '{}'"
OWN_LOOPS = "TVM brings loops for it that no rule takes"


@dataclass(frozen=True)
class _PlainKernel:
    """A kernel with unscheduled parts."""

    name: str
    function: "tvm.tirx.PrimFunc"
    """The unscheduled kernel."""
    parts: Sequence[KernelPart]
    is_whole: bool
    """Whether no rule scheduled any part of it."""
    time: float
    """Time of the plain parts, in all calls."""


def unscheduled(lowered: Lowered, target: "tvm.target.Target", *, has_rules: bool = True) -> Unscheduled:
    """The share of estimated time in plain loops; on GPUs, in reductions that only TVM's general rule schedules.

    Times are estimated from operation counts, for representative sizes of dynamic dimensions. Kernels with a record
    count as scheduled.

    Args:
        has_rules: whether rules were applied to the kernels without a record.
    """
    sizes = representative_sizes(lowered.unscheduled)
    calls = Counter(str(call.args[0].name_hint) for call in tensor_calls(lowered.unscheduled))
    total, plain_kernels = 0.0, []
    for variable, function in lowered.unscheduled.functions_items():
        name = str(variable.name_hint)
        if not isinstance(function, tvm.tirx.PrimFunc) or tvm.relax.analysis.has_reshape_pattern(function):
            continue
        plain = [] if name in lowered.tuned else _plain_parts(lowered, name, target, sizes)
        plain_time, rest = _times(kernel_parts(function, sizes), plain, target)
        total += calls[name] * (plain_time + rest)
        if plain_time:
            is_whole = name not in lowered.ruled
            plain_kernels.append(_PlainKernel(name, function, plain, is_whole, calls[name] * plain_time))
    plain_kernels.sort(key=lambda kernel: (-kernel.time, kernel.name))
    points = kernel_points(lowered.unscheduled, network_points(lowered.unscheduled)) if plain_kernels else {}
    reasons = _Reasons(lowered, target, sizes, points, has_rules)
    return Unscheduled(
        time_share=round(sum(kernel.time for kernel in plain_kernels) / total, 4) if total else 0.0,
        kernels=[
            UnscheduledKernel(
                name=kernel.name,
                time_share=round(kernel.time / total, 4),
                blocks=[] if kernel.is_whole else list(dict.fromkeys(part.name for part in kernel.parts)),
                **reasons.of(kernel),
            )
            for kernel in plain_kernels
            if kernel.time >= LEAST_SHARE * total
        ],
        layout_failure=str((lowered.unscheduled.attrs or {}).get(LAYOUT_FAILURE, "")),
    )


def _plain_parts(
    lowered: Lowered, name: str, target: "tvm.target.Target", sizes: Mapping[str, int]
) -> list[KernelPart]:
    if not backend_of(target).binds_threads:
        return list(_without_schedule(kernel_parts(lowered.fused[name], sizes)))
    if is_scheduled(lowered.fused[name]):
        return []
    function = lowered.unscheduled[name]
    names = dynamic_dimensions(function)
    if names and backend_of(target).has_rule(fix_dimensions(function, sizes, names), target):
        # TVM's rules for such kernels are made for static dimensions, too.
        return [part for part in kernel_parts(function, sizes) if part.reduction_length]
    # TVM's rules schedule the remaining GPU kernels after all other passes.
    kernel = lowered.final[name] if name in _names(lowered.final) else lowered.fused[name]
    return [
        part
        for part in kernel_parts(kernel, sizes)
        if part.is_plain and part.is_in_threads and part.reduction_length > SHORT_REDUCTION
    ]


def _without_schedule(parts: Iterable[KernelPart]) -> Iterator[KernelPart]:
    """The plain parts that are worth a schedule."""
    for part in parts:
        if part.is_plain and part.operations >= LITTLE_WORK[part.reduction_length > 0]:
            yield part


def _times(
    parts: Sequence[KernelPart], plain: Sequence[KernelPart], target: "tvm.target.Target"
) -> tuple[float, float]:
    """Estimated ns of a call: of its plain parts, and of the others.

    Args:
        parts: of the unscheduled kernel; a schedule may compute a value in several parts.
        plain: the plain parts of the built kernel.
    """
    if backend_of(target).binds_threads:
        # The slowdown of such schedules has not been measured, so operations represent time.
        covered = sum(part.operations for part in plain)
        return float(covered), float(max(0, sum(part.operations for part in parts) - covered))
    plain_time = sum(
        part.operations * (RUNTIME_NS if part.calls_runtime else PLAIN_NS[part.reduction_length > 0]) for part in plain
    )
    rest = 0.0
    for reduces in (True, False):
        operations = [
            sum(part.operations for part in group if (part.reduction_length > 0) == reduces) for group in (parts, plain)
        ]
        rest += max(0, operations[0] - operations[1]) * SCHEDULED_NS[reduces]
    return plain_time, rest


def _names(module: "tvm.IRModule") -> set[str]:
    return {str(variable.name_hint) for variable in module.get_global_vars()}


@dataclass(frozen=True)
class _Reasons:
    """Finds out by trial why kernels have no schedule."""

    lowered: Lowered
    target: "tvm.target.Target"
    sizes: Mapping[str, int]
    points: Mapping[str, Sequence[SizePoint]]
    """Sizes of each kernel's dimensions for tuning."""
    has_rules: bool

    def of(self, kernel: _PlainKernel) -> dict[str, Any]:
        """The reason, and a remedy."""
        is_tunable = why_not_tuned(kernel.function, self.target, self.points.get(kernel.name, ())) is None
        if not self.has_rules:
            return {"reason": RULES_ARE_OFF, "is_tunable": is_tunable}
        backend = backend_of(self.target)
        is_refused = kernel.name in self.lowered.refused
        if backend.binds_threads and not is_refused and (names := self._dimensions(kernel)):
            return self._dynamic(names)
        if backend.binds_threads or not backend.has_rules:
            reason = DEFAULT_RULE if backend.binds_threads else NO_RULES.format(self.target.kind.name)
            return {"reason": reason, "is_tunable": is_tunable}
        if refusal := self.lowered.refused.get(kernel.name):
            return {"reason": refusal, "is_tunable": is_tunable}
        if names := self._dimensions(kernel):
            return self._dynamic(names)
        runtime = [part.name for part in kernel.parts if part.calls_runtime]
        if runtime:
            return {"reason": f"TVM's runtime computes it on one core ({', '.join(dict.fromkeys(runtime))})"}
        if not leaf_blocks(kernel.function):
            return {"reason": OWN_LOOPS}
        blocks = ", ".join(dict.fromkeys(part.name for part in kernel.parts))
        return {"reason": f"no rule takes its {blocks}", "is_tunable": is_tunable}

    def _dynamic(self, names: Sequence[str]) -> dict[str, Any]:
        """The reason that these dimensions are dynamic, and the ones that can be fixed."""
        quoted = [f"'{name}'" for name in names]
        listed = " and ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
        reason = f"its dimension{'s' if quoted[1:] else ''} {listed} {'are' if quoted[1:] else 'is'} dynamic"
        return {"reason": reason, "dims": [name for name in names if name in self.sizes]}

    def _dimensions(self, kernel: _PlainKernel) -> list[str]:
        """The dynamic dimensions that prevent a schedule: the fewest that must be fixed for one."""
        names = list(dynamic_dimensions(kernel.function))
        if not names or not self._is_scheduled(kernel, names):
            return []
        single = [name for name in names if self._is_scheduled(kernel, [name])] if names[1:] else []
        return single[-1:] or names

    def _is_scheduled(self, kernel: _PlainKernel, names: Sequence[str]) -> bool:
        """Whether a rule schedules a kernel with these dimensions fixed."""
        fixed = fix_dimensions(kernel.function, self.sizes, names)
        backend = backend_of(self.target)
        if backend.binds_threads:
            return backend.has_rule(fixed, self.target)
        kernel_schedule = schedule_kernel(fixed, self.target)
        if kernel_schedule is None:
            return False
        before, after = (
            _times((), list(parts), self.target)[0]
            for parts in (kernel.parts, _without_schedule(kernel_parts(kernel_schedule, self.sizes)))
        )
        return after * IMPROVEMENT <= before
