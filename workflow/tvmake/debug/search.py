"""Search for the first wrong operator of a package that misses its goals: stage by stage, then value by value."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact import stage_json
from tvmake.artifact.calibration import Calibration
from tvmake.artifact.module_files import load_module
from tvmake.artifact.package import inspect
from tvmake.artifact.signature import Signature
from tvmake.artifact.weights.tensors import load_params
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.lowering import Lowered
from tvmake.codegen.weights import packed_weights
from tvmake.config.requests.building import BuildRequest
from tvmake.config.validation import Goals, default_goals
from tvmake.debug.coarse_layers import CoarseLayers
from tvmake.debug.departure import (
    Departure,
    Value,
    departure_of_error,
    difference,
    has_nan,
    is_all_nan,
    last_computed,
)  # fmt: skip
from tvmake.debug.diagnosis import Cause, Diagnosis, Evidence, Finding, Level, LevelFigures
from tvmake.debug.kernels import first_wrong_kernel, kernel_finding
from tvmake.debug.relax_values import Step, Trace, main_arguments, trace_kernels, trace_operators
from tvmake.debug.sample_goals import met_goals, missed_goals
from tvmake.debug.source_values import source_values
from tvmake.debug.variant import Variant
from tvmake.debug.worst_sample import worst_sample
from tvmake.errors import InputError
from tvmake.process.output import counted
from tvmake.quantize.precision import WEIGHTS_ONLY, PrecisionConfig
from tvmake.records.best import BestSet
from tvmake.targets.resolve import linker, tvm_target
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest, UserPass
from tvmake.tune.verify.kernel_runner import kernel_runner
from tvmake.validate.reference.stored import ReferenceSet
from tvmake.validate.verdict import MissedGoal

NOISE: Mapping[str, float] = {"float32": 1e-4}
COARSE_NOISE = 5e-3
"""The difference that rounding alone causes between equal values, relative to the RMS."""

QUANTISED_PREFIX = re.compile(r"^int\d_")
"""The prefix in the name of a matmul with weights in few bits, before the original operator's name."""

AUTO = "`base: auto` measures which layers bear it, and leaves the others in float32"
"""The remedy for a precision that is too coarse."""

MOST_KEPT = 6
"""Maximum number of operators that are tried in float32, one more at a time."""


def diagnose(variant: Variant, say: Callable[[str], None] = lambda _: None) -> tuple[Diagnosis, Evidence]:
    """Run a variant's network after each stage, and examine the first one whose outputs miss the goals.

    Args:
        say: called with a line before each step.

    Raises:
        InputError: a file is missing or damaged, or the network has dimensions without a value.
        DeviceError: the device cannot be reached, or was lost.
        MachineError: the source model's framework is not installed.
    """
    return _Search(variant, say).run()


class _Search:
    def __init__(self, variant: Variant, say: Callable[[str], None]):
        self.variant = variant
        self.say = say
        self.known = ReferenceSet(variant.reference)
        self.signature = stage_json.load(Signature, variant.signature)
        self.is_quantized = inspect(variant.package).is_source_quantized
        self.goals = variant.validating.goals_of(self.is_quantized)
        self.levels: list[LevelFigures] = []
        self.missed: list[MissedGoal] = []
        """The package's figures, over all samples."""
        self.evidence = Evidence()

    def run(self) -> tuple[Diagnosis, Evidence]:
        self.say(f"running the package on {self.variant.validating.device_name}")
        worst = worst_sample(
            self.variant.package, self.variant.validating, self.variant.reference, self.signature, self.goals
        )
        self.sample, self.missed = worst.sample, worst.missed
        finding = self._find(worst.outputs)
        diagnosis = Diagnosis(
            variant=self.variant.name,
            sample=worst.number,
            samples=len(self.known),
            levels=self.levels,
            finding=finding,
            missed=[_words(label) for label in worst.missed_with_labels],
        )
        return diagnosis, self.evidence

    def _find(self, on_device: Sequence[np.ndarray]) -> Finding | None:
        inputs = self._inputs
        self.say("running the imported network, operator by operator")
        imported, weights = load_module(self.variant.imported), load_params(self.variant.imported_params)
        first = trace_operators(imported, main_arguments(imported, inputs, weights))
        if self._misses("import", first.outputs, default_goals("float32", self.is_quantized)):
            return self._in_import(first)
        self.say("running the transformed network, operator by operator")
        module, params = load_module(self.variant.module), load_params(self.variant.params)
        second = trace_operators(module, main_arguments(module, inputs, params))
        if self._misses("transform", second.outputs, self.goals):
            if self._missed_goals(first.outputs, self.goals) and not self._missed_goals(
                second.outputs, default_goals("float32")
            ):
                return self._beyond_float32(second)
            return self._in_transform(first, second, imported, weights)
        self.say("running the fused network, kernel by kernel")
        lowered, target = self._lower(module, self.variant.building)
        third = self._kernels(lowered, params)
        if self._misses("build", third.outputs, self.goals):
            return self._in_lowering(second, third, module, params)
        if self._misses("device", on_device, self.goals):
            return self._on_device(lowered, third, target)
        return None

    def _misses(self, level: Level, outputs: Sequence[np.ndarray], goals: Goals) -> bool:
        """Whether a stage is wrong. If the package is correct no stage is, although plain loops may overflow or round differently."""
        expected = [self.sample.outputs[spec.name] for spec in self.signature.outputs]
        errors = [
            difference(want, have) if want.shape == have.shape else float("inf")
            for want, have in zip(expected, outputs, strict=True)
        ]
        missed = self._missed_goals(outputs, goals)
        self.levels.append(
            LevelFigures(level=level, error=_finite(max(errors)), missed=[_words(goal) for goal in missed])
        )
        return bool(missed and self.missed)

    def _missed_goals(self, outputs: Sequence[np.ndarray], goals: Goals) -> list[MissedGoal]:
        return missed_goals(self.sample.outputs, outputs, goals)

    # --- the four stages ------------------------------------------------------------------------------------------

    def _in_import(self, trace: Trace) -> Finding:
        self.say("running the source model in its own framework, operator by operator")
        options = self.variant.source
        values = source_values(options.source, options, self.signature, self.sample.inputs)
        if any(is_all_nan(self.sample.outputs[spec.name]) for spec in self.signature.outputs):
            return self._in_model(values)
        others = [value.array for value in trace.values]
        departure = self._departure(values, others, NOISE["float32"])
        if departure and departure.steps:
            return self._rounding(departure, values, departure.steps)
        remedy = "an issue with the reproducer helps; meanwhile rewrite the operator, or export with another opset"
        return self._finding("importer", departure, values, "the import computes other values for it", remedy)

    def _in_model(self, values: Sequence[Value]) -> Finding:
        """The finding for a source model whose output has NaN: the first value that is not finite."""
        first = next((Departure(value, None, float("inf")) for value in values if has_nan(value.array)), None)
        detail = "the model itself computes NaN or infinity for it, in its own framework"
        inputs = "the data that it is made for" if self.known.info.data == "random" else "other data"
        remedy = f"compare on {inputs}: `models.{self.variant.name.partition('/')[0]}.dataset`"
        return self._finding("model", first, values, detail, remedy)

    def _rounding(self, departure: Departure, values: Sequence[Value], apart: int) -> Finding:
        detail = f"{apart} of {departure.value.array.size} integers differ by one step: the exact values are on the edge between two steps, so either is right"
        return self._finding("rounding", departure, values, detail, f"no operator is wrong; {self._met_goals()}")

    def _beyond_float32(self, trace: Trace) -> Finding:
        detail = "the goals are beyond float32: the imported network misses them too, by rounding alone"
        return self._finding("rounding", None, trace.values, detail, f"no operator is wrong; {self._met_goals()}")

    def _met_goals(self) -> str:
        goals = met_goals(self.variant.name, self.variant.base, self.missed)
        return f"goals that this package meets: {goals}"

    def _in_transform(
        self, before: Trace, after: Trace, imported: "tvm.IRModule", weights: Mapping[str, Any]
    ) -> Finding:
        request = self.variant.transforming
        values, others = after.values, [*self._inputs, *(value.array for value in before.values)]
        noise = NOISE.get(request.precision.base, COARSE_NOISE)
        self.say("transforming the network once more, without one setting at a time")
        without, right = self._needless(imported, weights)
        if right:  # nearly the same form, so folded operators are in it too
            others += [value.array for value in right.values]
        departure = self._departure(values, others, noise)
        match without:
            case "":
                detail = "a pass of `transform` changes it with any setting"
                return self._finding("pass", departure, values, detail, "an issue with the reproducer helps")
            case "nothing":
                detail = "the transform now gives another network than the file has"
                return self._finding("pass", departure, values, detail, "`tvmake make` rebuilds it")
            case "the precision" if (finding := self._coarse(after, imported, weights)) is not None:
                return finding
            case "the precision" if request.precision.base == "int8":
                detail = "its integers differ from the network by more than rounding to 8 bits"
                remedy = "an issue with the reproducer helps; meanwhile list the convolution or matmul under `never` of the precision"
                return self._finding("pass", departure, values, detail, remedy)
            case "the precision":
                coarse = f"{request.precision.base} is too coarse for {'it' if departure else 'the network'}"
                detail = (departure and departure.overflow) or coarse
                remedy = self._kept_in_float32(departure, others, imported, weights)
                return self._finding("precision", departure, values, detail, remedy)
            case _:
                detail = f"without {without} all values are correct"
                return self._finding("pass", departure, values, detail, _leave_out(without))

    def _coarse(self, after: Trace, imported: "tvm.IRModule", weights: Mapping[str, Any]) -> Finding | None:
        """The layers for which 8 bits are too coarse; None if their rounding is not the cause."""
        variant, request = self.variant, self.variant.transforming
        if request.precision.base != "int8" or variant.calibration is None:
            return None
        self.say("running one layer at a time in 8 bits")
        calibration = stage_json.load(Calibration, variant.calibration)
        inputs = [spec.name for spec in self.signature.inputs]
        layers = CoarseLayers(imported, weights, request, calibration, self.sample, inputs)
        if not layers.layers or not layers.is_rounding(after.outputs):
            return None
        return layers.finding(f"{AUTO}; {self._met_goals()}")

    def _kept_in_float32(
        self,
        departure: Departure | None,
        others: Sequence[np.ndarray],
        imported: "tvm.IRModule",
        weights: Mapping[str, Any],
    ) -> str:
        """Keep the operator that departs in float32, and the next one if that is not enough, and so on."""
        request = self.variant.transforming
        if request.precision.is_chosen:
            return "list its operator under `never` of the precision, or set the goals that it must meet: they decide the choice"
        name = self.variant.name.split("/")[1]
        never = list(request.precision.never)
        noise = NOISE.get(request.precision.base, COARSE_NOISE)
        while departure and len(never) < len(request.precision.never) + MOST_KEPT:
            operator = QUANTISED_PREFIX.sub("", departure.value.operator.removeprefix("relax."))
            if operator in never:
                break
            never.append(operator)
            precision = request.precision.model_copy(update={"never": never})
            trace = self._transform(imported, weights, request.model_copy(update={"precision": precision}))
            if not self._missed_goals(trace.outputs, self.goals):
                kept = f"`precisions: {{{name}: {{never: [{', '.join(never)}]}}}}`"
                return f"{kept} keeps what needs it in float32, and meets the goals"
            departure = self._departure(trace.values, others, noise)
        tried = (
            "keeping single operators in float32 does not help: " if len(never) > len(request.precision.never) else ""
        )
        others_do = self._met_goals() if request.precision.base in WEIGHTS_ONLY else AUTO
        return f"{tried}take another precision; {others_do}"

    def _needless(self, imported: "tvm.IRModule", weights: Mapping[str, Any]) -> tuple[str, Trace | None]:
        """The setting of the transform without which its outputs meet the goals, and its values then: ``nothing`` where they do so
        with all settings; empty where no single one makes the difference."""
        request = self.variant.transforming
        options = request.transform
        changes: dict[str, dict[str, Any]] = {
            name: {"passes": passes} for name, passes in _without_passes(options.passes)
        }
        changes |= {"`transform.fold_batch_norm`": {"fold_batch_norm": False}} if options.fold_batch_norm else {}
        changes |= {f"`transform.layout: {options.layout}`": {"layout": "keep"}} if options.layout != "keep" else {}
        # The precision last: a pass may be wrong in one precision alone.
        others = {"nothing": request}
        for name, change in changes.items():
            others[name] = request.model_copy(update={"transform": options.model_copy(update=change)})
        if request.precision.base != "float32":
            others["the precision"] = request.model_copy(update={"precision": PrecisionConfig(base="float32")})
        for name, other in others.items():
            try:
                trace = self._transform(imported, weights, other)
            except InputError:
                if name == "nothing":
                    raise
                continue  # a pass that needs what another one does
            if not self._missed_goals(trace.outputs, self.goals):
                return name, trace
        return "", None

    def _transform(self, imported: "tvm.IRModule", weights: Mapping[str, Any], request: TransformRequest) -> Trace:
        ranges = stage_json.load(Calibration, self.variant.calibration) if self.variant.calibration else None
        module, params = transform(imported, weights, request, ranges, self.variant.assignment)
        return trace_operators(module, main_arguments(module, self._inputs, params))

    def _in_lowering(self, before: Trace, after: Trace, module: "tvm.IRModule", params: Mapping[str, Any]) -> Finding:
        noise = NOISE.get(self.variant.transforming.precision.base, COARSE_NOISE)
        values = after.values
        departure = self._departure(values, [*self._inputs, *(value.array for value in before.values)], noise)
        request = self.variant.building
        for name, passes in _without_passes(request.passes):
            try:
                lowered, _ = self._lower(module, request.model_copy(update={"passes": passes}))
            except InputError:
                continue  # a pass that needs what another one does
            if not self._missed_goals(self._kernels(lowered, params).outputs, self.goals):
                return self._finding(
                    "lowering", departure, values, f"without {name} all values are correct", _leave_out(name)
                )
        remedy = "leave passes out one by one, see `build.disabled_passes`"
        return self._finding("lowering", departure, values, "a pass of `build` changes it", remedy)

    def _on_device(self, lowered: Lowered, trace: Trace, target: "tvm.target.Target") -> Finding:
        request = self.variant.building
        on = self.variant.validating
        compiler = linker(request.target, f"targets.{request.target_name}")
        runner = kernel_runner(on.device_name, on.device, target, compiler)
        kernels = sum(step.kernel is not None for step in trace.steps)
        self.say(f"running {counted(kernels, 'kernel')} on {on.device_name}, one by one")
        rounded: list[tuple[Step, int]] = []
        wrong = first_wrong_kernel(
            lowered, trace.steps, target, runner, rounded=lambda step, apart: rounded.append((step, apart))
        )
        if wrong is None and rounded:
            value = next(rounded[0][0].values())
            return self._rounding(Departure(value, None, float("inf")), [value], rounded[0][1])
        if wrong is None and self.variant.transforming.precision.base == "tf32":
            detail = "every kernel is right but for what TF32 rounds, which is too coarse for the network"
            remedy = f"take another precision: float32 is the most accurate; {self._met_goals()}"
            return self._finding("precision", None, trace.values, detail, remedy)
        if wrong is None:
            detail = "every kernel is right by itself; what runs them is not: the memory plan, the virtual machine or the driver's state"
            return self._finding("runtime", None, trace.values, detail, "an issue with the reproducer helps")
        return kernel_finding(wrong, lowered, self.evidence)

    # --- help -----------------------------------------------------------------------------------------------------

    @property
    def _inputs(self) -> list[np.ndarray]:
        return [self.sample.inputs[spec.name] for spec in self.signature.inputs]

    def _departure(self, values: Sequence[Value], others: Sequence[np.ndarray], noise: float) -> Departure | None:
        return departure_of_error(values, others, self.levels[-1].error, noise)

    def _finding(
        self, cause: Cause, departure: Departure | None, values: Sequence[Value], detail: str, remedy: str
    ) -> Finding:
        value = departure.value if departure else last_computed(values)
        self.evidence.arrays["got"] = value.array
        if departure and departure.nearest is not None:
            self.evidence.arrays["expected0"] = departure.nearest
        by_name = {value.name: value.array for value in values}
        for number, name in enumerate(name for name in value.inputs if name in by_name):
            self.evidence.arrays[f"input{number}"] = by_name[name]
        return Finding(
            cause=cause,
            operator=value.operator,
            value=value.name,
            shape=value.array.shape,
            dtype=str(value.array.dtype),
            departs=departure is not None,
            error=_finite(departure.error) if departure else None,
            detail=detail,
            remedy=remedy,
        )

    def _kernels(self, lowered: Lowered, params: Mapping[str, Any]) -> Trace:
        names = [str(parameter.name) for parameter in lowered.unscheduled["main"].params[len(self._inputs) :]]
        packed = packed_weights(params, lowered.packings, names) if lowered.packings else params
        return trace_kernels(lowered.unscheduled, main_arguments(lowered.unscheduled, self._inputs, packed))

    def _lower(self, module: "tvm.IRModule", request: BuildRequest) -> tuple[Lowered, "tvm.target.Target"]:
        target = tvm_target(request.target, f"targets.{request.target_name}")
        best = stage_json.load(BestSet, self.variant.best) if self.variant.best else None
        lowered, _ = lower_and_generate(module, target, request, len(self.signature.arguments), best)
        return lowered, target


def _without_passes(passes: Sequence[UserPass]) -> Iterator[tuple[str, list[UserPass]]]:
    """The passes without each of them, and without all, with a name for the omitted ones."""
    for user_pass in passes:
        yield f"the pass {user_pass.use}", [entry for entry in passes if entry is not user_pass]
    if len(passes) > 1:
        yield f"the passes {', '.join(user_pass.use for user_pass in passes)}", []


def _leave_out(name: str) -> str:
    """The remedy for a wrong setting, or for passes that are wrong only in combination."""
    return f"leave {name} out, or correct {'them' if name.startswith('the passes') else 'it'}"


def _finite(error: float) -> float | None:
    return error if np.isfinite(error) else None


def _words(missed: MissedGoal) -> str:
    return f"{missed.goal}{f' of {missed.output}' if missed.output else ''}: {missed.reason}"
