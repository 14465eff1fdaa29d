"""Keep states to which each run appends rows in buffers of full size, and write new rows in place; also those of states of fixed size.

The number of rows is a dimension of one more state, whose only axis grows with them: runtimes carry and reset it as any other, and
the host knows it without waiting for the device. What reads the rows gets the valid ones: matmuls from the buffer itself if the
target has a kernel for it, other operators from a copy.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm

from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.artifact.state_names import is_named
from tvmake.artifact.states import LENGTH, LENGTH_DTYPE
from tvmake.artifact.weights.names import unused_name
from tvmake.codegen.caches.fixed_size import FixedCache, recognize_fixed_caches
from tvmake.codegen.caches.recognition import Cache, NetworkValues, first_operand, recognize_caches
from tvmake.codegen.caches.writing import append_kernel, scatter_kernel
from tvmake.ir.expressions import bindings, dtype_name, is_call, variables
from tvmake.ir.size_checks import add_size_checks
from tvmake.ir.views import View, whole_view
from tvmake.targets.backends import backend_of
from tvmake.targets.kernels.scheduled_kernel import IS_SCHEDULED
from tvmake.transform.simplify_shapes import simplify_shapes

from tvm import relax, te, tirx  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


@dataclass(frozen=True)
class CachedNetwork:
    """A network with states that are written in place."""

    module: "tvm.IRModule"
    signature: Signature
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """For states whose size changes up to a known maximum: why they are copied in each run, by name."""


def write_caches_in_place(
    module: "tvm.IRModule",
    signature: Signature,
    target: "tvm.target.Target",
    owner: Signature | None = None,
    separate: Collection[str] = (),
) -> CachedNetwork:
    """Write the new rows of states in place.

    Args:
        module: a transformed network.
        signature: its own; that of the result has the buffers, and states for their lengths behind the others.
        owner: that of another function of the package. Buffers get the sizes of its own, so that both share them.
        separate: names of states that each function has for itself; ``%d`` matches a number.
    """
    backend = backend_of(target)
    if not signature.states or backend.has_textures or backend.offloads_to_clml or backend.needs_fixed_sizes:
        return CachedNetwork(module, signature)
    simple = simplify_shapes(module)
    recognition = recognize_caches(simple, signature)
    fixed = recognize_fixed_caches(simple, signature)
    if not recognition.caches and not fixed:
        return CachedNetwork(module, signature, recognition.obstacles)
    shared = [state for state in owner.states if not is_named(state.name, separate)] if owner else []
    owned = {state.name: state for state in shared}
    states = [signature.states[cache.number] for cache in recognition.caches]
    caches = [
        _follow_size(cache, state, owned.get(state.name))
        for cache, state in zip(recognition.caches, states, strict=True)
    ]
    rewriting = _CacheMutator(simple, signature, caches, fixed, target)
    return CachedNetwork(rewriting.rewrite(), rewriting.signature(), recognition.obstacles)


@mutator
class _CacheMutator(PyExprMutator):
    def __init__(
        self,
        module: "tvm.IRModule",
        signature: Signature,
        caches: Sequence[Cache],
        fixed: Sequence[FixedCache],
        target: Any,
    ):
        super().__init__(module)
        self._module, self._signature, self._caches = module, signature, caches
        self._values = NetworkValues(module)
        self._backend, self._target = backend_of(target), target
        main = module["main"]
        self._main, self._inputs = main, len(signature.inputs)
        states = [main.params[self._inputs + cache.number] for cache in caches]
        self._appends = {concat: (cache, append) for cache in caches for concat, append in cache.appends.items()}
        self._buffers = {
            cache.number: relax.Var(str(state.name), _full_type(state.ty, cache))
            for cache, state in zip(caches, states, strict=True)
        }
        """The latest version of each buffer, by the state's index."""
        for cache in fixed:
            self._buffers[cache.number] = main.params[self._inputs + cache.number]
        self._scatters = {cache.scatter: cache for cache in fixed}
        self._parameters = dict(self._buffers)
        self._views: dict[Any, tuple[int, View]] = {
            state: (cache.number, whole_view(state.ty.shape.values, dtype_name(state.ty)))
            for cache, state in zip(caches, states, strict=True)
        }
        """Variables of the network that are not computed."""
        for cache in fixed:
            state = main.params[self._inputs + cache.number]
            self._views[state] = cache.number, whole_view(state.ty.shape.values, dtype_name(state.ty))
        self._copies: dict[Any, Any] = {}
        self._lengths = {cache.past: cache for cache in reversed(caches)}
        self._length_names = {past: self._length_name(past) for past in self._lengths}
        names = {str(parameter.name) for parameter in main.params}
        self._length_parameters = {
            past: relax.Var(unused_name(re.sub(r"\W", "_", name), names), relax.TensorType([past], LENGTH_DTYPE))
            for past, name in self._length_names.items()
        }
        self._needed = self._needed_variables()

    def rewrite(self) -> "tvm.IRModule":
        """The module with buffers."""
        main = self._main
        count = len(self._signature.arguments)
        arguments = list(main.params[:count])
        for number, buffer in self._parameters.items():
            arguments[self._inputs + number] = buffer
        parameters = [*arguments, *self._length_parameters.values(), *main.params[count:]]
        body = self.visit_expr(main.body)
        attrs = dict(main.attrs or {})
        if "num_input" in attrs:
            attrs["num_input"] = int(attrs["num_input"]) + len(self._lengths)
        function = relax.Function(
            parameters, body, body.body.ty, main.is_pure, tvm.ir.make_node("ir.DictAttrs", **attrs)
        )
        capacities = {past: min(c.capacity for c in self._caches if c.past.same_as(past)) for past in self._lengths}
        checks = [
            (
                tirx.max(cache.total, _int64(capacities[past])),
                _int64(capacities[past]),
                f"the states would have {{0}} rows ({cache.total}), and have space for {{1}}; `reset()` restarts them, and a "
                f"greater maximum of {past.name} gives more",
            )
            for past, cache in self._lengths.items()
        ]
        self.builder_.update_func(self._module.get_global_var("main"), add_size_checks(function, checks))
        built = self.builder_.get()
        module = tvm.IRModule(
            dict(built.functions_items()), attrs=self._module.attrs, global_infos=self._module.global_infos
        )
        return relax.transform.DeadCodeElimination()(relax.transform.Normalize()(module))

    def signature(self) -> Signature:
        """The signature of the result."""
        states = list(self._signature.states)
        for cache in self._caches:
            state = states[cache.number]
            shape = (*state.shape[: cache.axis], cache.capacity, *state.shape[cache.axis + 1 :])
            following = state.next.model_copy(update={"shape": shape})
            states[cache.number] = state.model_copy(
                update={"shape": shape, "next": following, "source_shapes": (state.shape, state.next.shape)}
            )
        for past, parameter in self._length_parameters.items():
            state = self._signature.states[self._lengths[past].number]
            axis = self._lengths[past].axis
            name, relax_name = self._length_names[past], str(parameter.name)
            following = TensorSpec(
                name=f"{name}_next",
                relax_name=f"{relax_name}_next",
                shape=(state.next.shape[axis],),
                dtype=LENGTH_DTYPE,
            )
            states.append(
                StateSpec(
                    name=name, relax_name=relax_name, shape=(state.shape[axis],), dtype=LENGTH_DTYPE, next=following
                )
            )
        return self._signature.model_copy(update={"states": tuple(states)})

    def _length_name(self, past: Any) -> str:
        """After the first of the states that grow together: functions of a package may name the dimension differently."""
        states = self._signature.states
        return LENGTH + min(states[cache.number].name for cache in self._caches if cache.past.same_as(past))

    def _needed_variables(self) -> set[Any]:
        """What the outputs, the new rows and the other states need."""
        results = self._values.definition(self._main.body.body).fields
        cached = {len(self._signature.outputs) + number for number in self._parameters}
        pending = [v for index, result in enumerate(results) if index not in cached for v in variables(result)]
        pending += [self._main.body.body, *self._appends, *self._scatters]
        casts = (binding for binding in bindings(self._main) if isinstance(binding, relax.MatchCast))
        pending += [variable for cast in casts for variable in variables(cast.value)]
        needed: set[Any] = set()
        while pending:
            variable = pending.pop()
            if variable in needed:
                continue
            needed.add(variable)
            if variable in self._appends:
                pending += variables(self._appends[variable][1].new)
            elif variable in self._scatters:
                pending += [
                    used for operand in self._values.definitions[variable].args[1:] for used in variables(operand)
                ]
            elif not variable.same_as(self._main.body.body):
                pending += variables(self._values.definitions.get(variable))
        return needed

    def visit_var_binding_(self, binding: Any) -> None:
        variable, value = binding.var, binding.value
        if variable.same_as(self._main.body.body):
            self._return(binding)
        elif variable in self._appends:
            self._append(variable)
        elif variable in self._scatters:
            self._scatter(variable, value)
        elif variable in self._needed and not self._follow(variable, value):
            super().visit_var_binding_(binding)

    def visit_var_(self, op: Any) -> Any:
        return self._copy(op) if op in self._views else super().visit_var_(op)

    def visit_dataflow_var_(self, op: Any) -> Any:
        return self._copy(op) if op in self._views else super().visit_dataflow_var_(op)

    def visit_call_(self, op: Any) -> Any:
        if is_call(op, "shape_of") and op.args[0] in self._views:
            return relax.ShapeExpr(list(self._views[op.args[0]][1].shape))
        if is_call(op, "matmul") and (product := self._multiply(op)) is not None:
            return product
        return super().visit_call_(op)

    def _follow(self, variable: Any, value: Any) -> bool:
        operand = first_operand(value, self._values.definition)
        if operand is None or operand not in self._views:
            return False
        number, view = self._views[operand]
        followed = self._values.follow(value, view)
        if followed is not None:
            self._views[variable] = number, followed
        return followed is not None

    def _append(self, variable: Any) -> None:
        cache, append = self._appends[variable]
        buffer, new = self._buffers[cache.number], self.visit_expr(append.new)
        kernel = append_kernel(append, new.ty, buffer.ty)
        if not self._backend.binds_threads:
            kernel = kernel.with_attr(IS_SCHEDULED, True)  # TVM's interface
        function = self.builder_.add_func(kernel, "append_rows")
        call = relax.op.call_tir_inplace(function, [buffer, new, append.past], [0], [buffer.ty])
        self._buffers[cache.number] = self.builder_.emit(call, str(variable.name))
        self._views[variable] = cache.number, append.view

    def _scatter(self, variable: Any, call: Any) -> None:
        cache = self._scatters[variable]
        buffer = self._buffers[cache.number]
        kernel = scatter_kernel(call, cache.view, buffer.ty)
        if not self._backend.binds_threads:
            kernel = kernel.with_attr(IS_SCHEDULED, True)  # TVM's interface
        function = self.builder_.add_func(kernel, "scatter_rows")
        operands = [buffer, *map(self.visit_expr, call.args[1:])]
        self._buffers[cache.number] = self.builder_.emit(
            relax.op.call_tir_inplace(function, operands, [0], [buffer.ty]), str(variable.name)
        )
        self._views[variable] = cache.number, cache.view

    def _copy(self, variable: Any) -> Any:
        if variable not in self._copies:
            number, view = self._views[variable]
            self._copies[variable] = self.builder_.emit_te(
                lambda buffer: te.compute(
                    view.shape, lambda *i: view.apply_steps(buffer(*view.index(i))), "cache_rows"
                ),
                self._buffers[number],
                primfunc_name_hint="cache_rows",
            )
        return self._copies[variable]

    def _multiply(self, call: Any) -> Any:
        """A matmul with rows of a buffer by the target's own kernel; None without one."""
        left, right = call.args
        if right not in self._views or left in self._views:
            return None
        number, view = self._views[right]
        kernel = self._backend.cache_matmul(left.ty, view, self._buffers[number].ty, call.ty, self._target)
        if kernel is None:
            return None
        function = self.builder_.add_func(kernel, "cache_matmul")
        return relax.call_tir(function, [self.visit_expr(left), self._buffers[number]], call.ty)

    def _return(self, binding: Any) -> None:
        fields = list(self._values.definition(binding.var).fields)
        outputs = len(self._signature.outputs)
        cached = {outputs + number: buffer for number, buffer in self._buffers.items()}
        results = [cached[i] if i in cached else self.visit_expr(result) for i, result in enumerate(fields)]
        for cache in self._lengths.values():
            zeros = relax.op.zeros(relax.ShapeExpr([cache.total]), LENGTH_DTYPE)
            results.append(self.builder_.emit(zeros, "next_length"))
        returned = self.builder_.emit_output(self.builder_.normalize(relax.Tuple(results)), "results")
        self.set_var_remap(binding.var, returned)


def _follow_size(cache: Cache, state: StateSpec, owned: StateSpec | None) -> Cache:
    """The cache with as many rows as the state of another function, if these are enough for all that one run may find there."""
    if (
        owned is None
        or owned.source_shapes is None
        or (owned.dtype, len(owned.shape)) != (state.dtype, len(state.shape))
    ):
        return cache
    rows = owned.shape[cache.axis]
    return replace(cache, capacity=rows) if isinstance(rows, int) and rows >= cache.most_past else cache


def _full_type(kind: Any, cache: Cache) -> Any:
    shape = list(kind.shape.values)
    shape[cache.axis] = _int64(cache.capacity)
    return relax.TensorType(shape, dtype_name(kind))


def _int64(number: int) -> Any:
    return tirx.IntImm("int64", number)
