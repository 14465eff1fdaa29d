"""Lower a transformed module to the input of the code generator.

TVM chooses a pipeline in ``relax.build``. The phases here are the same for each target, but apply user passes and
records between them, and give access to the fused kernels.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.empty_tensors import AllocateEmpty
from tvmake.artifact.manifest import RowRange
from tvmake.artifact.signature import Bounds
from tvmake.codegen.cuda_graphs import allow_graph_dimensions
from tvmake.codegen.large_tensors import refuse_large_tensors
from tvmake.codegen.memory_plan import PlanMemory
from tvmake.codegen.options import PassOptions
from tvmake.codegen.passes import pass_context
from tvmake.errors import InputError
from tvmake.ir.attributes import SIZE_CHECK_MARK
from tvmake.ir.bounds import bounds_of
from tvmake.ir.rewriting import with_functions
from tvmake.ir.size_checks import size_reports
from tvmake.targets.backend import NO_WIDTHS, LoweringContext
from tvmake.targets.backends import backend_of
from tvmake.targets.dynamic.shape_order import order_shape_stores, ordered_shape_variables
from tvmake.targets.memory import Memory
from tvmake.targets.passes import Pass, pass_name, run_passes
from tvmake.targets.weights.layout_free import mark_layout_free
from tvmake.targets.weights.prepack import Packing, Prepacked, kernel_widths, packed_width, prepack, split
from tvmake.transform.options import UserPass
from tvmake.transform.simplify_shapes import simplify_shapes
from tvmake.transform.user_passes import apply_user_passes

SIZE_CHECK = re.compile(r"ErrorContext\(match_cast, ty=R\.Shape\(\[.*, (\d+)\]\)\)")
"""TVM's text for the context of a size check; it ends with the index of the report."""

OTHER_LAYOUT = "its weights have the layout that another function chose"
"""Why a record is not used."""

PYTHON_FUNCTIONS = "relax.run."
"""Name prefix of functions by which TVM computes operators in Python."""


@dataclass(frozen=True)
class Applied:
    """A fused module after records have been applied."""

    module: "tvm.IRModule"
    tuned: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a record scheduled, with the record's digest."""
    misses: Mapping[str, str] = field(default_factory=dict)
    """The other tensor functions, with the reason why they have no record."""


Records = Callable[["tvm.IRModule"], Applied]
"""Applies tuning records to a fused module (``tvmake.codegen.scheduling.apply``)."""


@dataclass(frozen=True)
class Lowered:
    """A module before, during and after lowering."""

    fused: "tvm.IRModule"
    """Relax calling fused tensor functions, scheduled by records or by tvmake's rules, or else unscheduled."""
    final: "tvm.IRModule"
    """The input of code generation."""
    unscheduled: "tvm.IRModule"
    """``fused`` before records were applied."""
    tuned: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions that a tuning record scheduled, with its digest; default GPU schedules do not count."""
    misses: Mapping[str, str] = field(default_factory=dict)
    """With records: the functions without one, with the reason."""
    ruled: frozenset[str] = frozenset()
    """The tensor functions that a rule scheduled."""
    packings: tuple[Packing, ...] = ()
    """Convert the model's parameters to ``main``'s; may be empty."""
    unpacked: "tvm.IRModule | None" = None
    """``fused`` before the packing of weights was separated from kernels."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """The tensor functions whose schedule by rule the code generator refused, with the reason."""
    functions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The sizes of dynamic dimensions for which a function was lowered, by its name; empty without such functions."""
    row_ranges: Mapping[str, RowRange] = field(default_factory=dict)
    """The other numbers of rows that a function computes, by its name; empty if there is dynamic code."""
    why_refused: str = ""
    """Why sizes that no function has are refused, if they are."""


@dataclass(frozen=True)
class LoweringOptions:
    """How to lower functions for a target."""

    target: "tvm.target.Target"
    passes: Sequence[UserPass] = ()
    build: PassOptions = field(default_factory=PassOptions)
    inputs: int = 0
    """Number of model inputs among ``main``'s arguments; needed with records."""
    records: Records | None = None
    """Schedules the tuned kernels."""
    cuda_graph: bool = False
    rules: bool = True
    """Schedule kernels without a record by tvmake's rules."""
    refused: Collection[str] = ()
    """Kernels to leave unscheduled: plain loops on CPUs, TVM's rules on GPUs."""
    instruments: Sequence[Any] = ()
    memory: Memory | None = None
    """What each tensor must fit; None without a limit."""
    widths: Mapping[str, int] = field(default_factory=dict)
    """The numbers of adjacent results for which another package packs parameters of the network, by name."""

    @property
    def captures_graphs(self) -> bool:
        """Whether kernels are captured in CUDA graphs."""
        return self.cuda_graph and backend_of(self.target).captures_graphs

    @property
    def packs(self) -> bool:
        """Whether kernels choose the layout of their weights."""
        backend = backend_of(self.target)
        return (self.records is not None or (self.rules and backend.has_rules)) and backend.packs_weights


def lower(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    options: PassOptions,
    inputs: int = 0,
    records: Records | None = None,
    cuda_graph: bool = False,
    rules: bool = True,
    refused: Collection[str] = (),
    instruments: Sequence[Any] = (),
) -> Lowered:
    """Lower a module for a target; the arguments are those of :class:`LoweringOptions`.

    Raises:
        InputError: a user pass fails; a kernel for a GPU has no schedule that runs there.
    """
    how = LoweringOptions(target, passes, options, inputs, records, cuda_graph, rules, refused, instruments)
    return lower_function(module, how)


def lower_function(module: "tvm.IRModule", how: LoweringOptions) -> Lowered:
    """The same as :func:`lower`."""
    graph = fused_graph(
        module, how.target, how.passes, how.build, how.inputs, layout_free=how.packs, instruments=how.instruments
    )
    packed = {name for packing in graph.packings for name in packing.results}
    widths = kernel_widths(graph.module, lambda name: None if name in packed else how.widths.get(name))
    scheduled = schedule_kernels(graph, how, widths)
    return replace(scheduled, final=to_machine_code(plan_memory(scheduled.fused, bounds_of(module), how), how))


def schedule_kernels(graph: Prepacked, how: LoweringOptions, widths: Mapping[str, int] = NO_WIDTHS) -> Lowered:
    """Schedule the kernels of a fused graph, and separate the packing of weights; ``final`` is the fused module.

    Args:
        widths: the numbers of adjacent results of tiles, by kernel, if weights have a layout already.

    Raises:
        InputError: a tensor exceeds the target's memory.
    """
    if how.memory:
        refuse_large_tensors(graph.module, how.memory)
    backend = backend_of(how.target)
    unscheduled, packings = graph.module, graph.packings
    applied = _with_layouts(how.records(unscheduled), unscheduled, widths) if how.records else Applied(unscheduled)
    fused, ruled = backend.schedule_kernels(applied.module, how.target, how.refused, by_rules=how.rules, widths=widths)
    unpacked = fused
    if how.packs:
        with _passes_of(how):
            prepacked = prepack(fused, how.inputs)
        fused, packings = prepacked.module, (*packings, *prepacked.packings)
    ruled = frozenset(ruled - applied.tuned.keys())
    return Lowered(fused, fused, unscheduled, applied.tuned, applied.misses, ruled, packings, unpacked)


def _with_layouts(applied: Applied, unscheduled: "tvm.IRModule", widths: Mapping[str, int]) -> Applied:
    """Leave out the records whose kernels would need weights in another layout."""
    other = {
        name
        for name in applied.tuned.keys() & widths.keys()
        if (parts := split(applied.module[name])) is None or packed_width(parts.packing) != widths[name]
    }
    if not other:
        return applied
    module = with_functions(applied.module, {applied.module.get_global_var(name): unscheduled[name] for name in other})
    tuned = {name: digest for name, digest in applied.tuned.items() if name not in other}
    return Applied(module, tuned, {**applied.misses, **dict.fromkeys(sorted(other), OTHER_LAYOUT)})


def plan_memory(fused: "tvm.IRModule", bounds: Mapping[str, Bounds], how: LoweringOptions) -> "tvm.IRModule":
    """Finish the kernels of a scheduled module, and plan the memory of ``main``."""
    captured = [allow_graph_dimensions(bounds)] if how.captures_graphs else []
    with _passes_of(how):
        before = backend_of(how.target).codegen_passes(LoweringContext(how.target, how.inputs, how.packs), fused)
        return run_passes([*before, *memory_passes(bounds), *captured], _copy(fused))


def schedule_further_kernels(module: "tvm.IRModule", main: Any, how: LoweringOptions) -> "tvm.IRModule":
    """Schedule kernels that are added to a scheduled module.

    Args:
        module: the kernels, and functions that call them.
        main: the network, with the bounds of dimensions.
    """
    backend = backend_of(how.target)
    with_main = with_functions(module, {"main": main})
    scheduled, _ = backend.schedule_kernels(with_main, how.target, how.refused, by_rules=how.rules)
    return with_functions(module, {variable: scheduled[variable] for variable in module.get_global_vars()})


def allocate_further_results(module: "tvm.IRModule", how: LoweringOptions) -> "tvm.IRModule":
    """Finish the kernels of such a module, and allocate the results of its functions without sharing memory."""
    transform = tvm.relax.transform
    passes = [
        *backend_of(how.target).default_schedule_passes(how.target),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
    ]
    with _passes_of(how):
        return run_passes(passes, _copy(module))


def to_machine_code(planned: "tvm.IRModule", how: LoweringOptions) -> "tvm.IRModule":
    """Lower functions with planned memory to TVM's virtual machine."""
    backend = backend_of(how.target)
    with _passes_of(how):
        graphs = [tvm.relax.transform.RewriteCUDAGraph()] if how.captures_graphs else []
        return run_passes([*machine_passes(graphs), *backend.final_passes()], planned)


@contextmanager
def _passes_of(how: LoweringOptions) -> Iterator[None]:
    switches = {"relax.backend.use_cuda_graph": how.captures_graphs}
    with how.target, pass_context(how.build, switches, how.instruments), ordered_shape_variables():
        yield


def memory_passes(bounds: Mapping[str, Bounds]) -> list[Pass]:
    """Allocate the results of ``main``'s kernels, for any kind of target."""
    transform = tvm.relax.transform
    return [
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        AllocateEmpty(),
        transform.CallTIRRewrite(),
        PlanMemory(bounds),
    ]


def machine_passes(graphs: Sequence[Pass] = ()) -> list[Pass]:
    """Lower functions with planned memory to TVM's virtual machine, for any kind of target.

    Args:
        graphs: passes that capture kernels in CUDA graphs.
    """
    transform = tvm.relax.transform
    return [
        *graphs,
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        report_size_checks,
        order_shape_stores,
        transform.AttachGlobalSymbol(),
    ]


@tvm.transform.module_pass(opt_level=0, name="ReportSizeChecks")
def report_size_checks(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Put the reports of size checks into a module after ``VMShapeLower``."""
    changed = {
        variable: _with_reports(function, reports)
        for variable, function in module.functions_items()
        if isinstance(function, tvm.relax.Function) and (reports := size_reports(function))
    }
    return with_functions(module, changed) if changed else module


def _with_reports(function: "tvm.relax.Function", reports: Sequence[str]) -> "tvm.relax.Function":
    def report(text: Any) -> Any:
        match = SIZE_CHECK.match(str(text.value))
        return tvm.ir.StringImm(f"{SIZE_CHECK_MARK}{reports[int(match[1])]}{SIZE_CHECK_MARK}") if match else text

    return tvm_ffi.structural_map(function, (tvm.ir.StringImm, report))


def list_passes(target: "tvm.target.Target") -> dict[str, list[str]]:
    """The names of a target's passes by what they transform, as ``build.dump`` and ``disabled_passes`` use them."""
    backend, context = backend_of(target), LoweringContext(target, layout_free=True)
    with target:
        phases = {
            "graph": backend.graph_passes(context),
            "kernels": backend.legalize_passes(context),
            "schedules": backend.codegen_passes(context, tvm.IRModule()),
            "virtual machine": [*memory_passes({}), *machine_passes(), *backend.final_passes()],
        }
    names = {phase: [pass_name(module_pass) for module_pass in passes] for phase, passes in phases.items()}
    return {**names, "each kernel": backend.kernel_pipeline().pass_names()}


def refuse_python_functions(module: "tvm.IRModule", where: str) -> None:
    """Refuse a lowered module with operators that TVM computes by Python functions: packages run without Python.

    Raises:
        InputError: naming the operators.
    """
    operators: set[str] = set()

    def visit(expression: Any) -> None:
        if isinstance(expression, tvm.relax.ExternFunc) and expression.global_symbol.startswith(PYTHON_FUNCTIONS):
            operators.add(f"relax.{expression.global_symbol.removeprefix(PYTHON_FUNCTIONS)}")

    for _, function in module.functions_items():
        if isinstance(function, tvm.relax.Function):
            tvm.relax.analysis.post_order_visit(function, visit)
    if operators:
        problem = f"TVM computes {', '.join(sorted(operators))} in Python, which packages run without"
        raise InputError(
            where,
            problem,
            "fix the dynamic dimensions (`dims: {NAME: SIZE}`), or leave what needs it out of the network",
        )


def fused_module(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    options: PassOptions,
    inputs: int,
    layout_free: bool,
) -> "tvm.IRModule":
    """The module of :func:`fused_graph`."""
    return fused_graph(module, target, passes, options, inputs, layout_free).module


def fused_graph(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    passes: Sequence[UserPass],
    options: PassOptions,
    inputs: int,
    layout_free: bool,
    instruments: Sequence[Any] = (),
    function: str = "",
) -> Prepacked:
    """The graph of fused, unscheduled kernels, from which kernels are extracted for tuning and a build continues.

    Args:
        inputs: number of model inputs among ``main``'s arguments.
        layout_free: let tuning choose the layout of weights (see :func:`packs_weights`).
        function: the name of the package's function; empty if it has only one.

    Raises:
        InputError: a user pass fails.
    """
    backend, context = backend_of(target), LoweringContext(target, inputs, layout_free, function)
    with target, pass_context(options, instruments=instruments), ordered_shape_variables():
        module = simplify_shapes(apply_user_passes(module, passes, "before_legalize"))
        backend.refuse(module)
        kernels = run_passes([*backend.graph_passes(context), *backend.legalize_passes(context)], module)
        fused = apply_user_passes(kernels, passes, "after_fusion")
    return Prepacked(mark_layout_free(fused, inputs) if layout_free else fused, tuple(context.packings))


def packs_weights(target: "tvm.target.Target") -> bool:
    """Whether kernels tuned for a target choose the layout of their weights."""
    return backend_of(target).packs_weights


def default_schedule(module: "tvm.IRModule", kernel: str, target: "tvm.target.Target") -> "tvm.tirx.PrimFunc":
    """Schedule an unscheduled kernel by TVM's own rules for a target; on CPUs it stays unchanged."""
    single = tvm.IRModule({kernel: module[kernel]}, attrs=module.attrs, global_infos=module.global_infos)
    with target:
        return run_passes(backend_of(target).default_schedule_passes(target), single)[kernel]


def _copy(module: "tvm.IRModule") -> "tvm.IRModule":
    """A new module with the same functions: dlight's passes replace functions in place."""
    return tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
