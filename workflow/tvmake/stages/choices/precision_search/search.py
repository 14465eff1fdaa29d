"""How the precision of each layer is found: each alone, then what they promise together, then the best of that by measuring."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from tvmake.benchmark.assignments import Edge, Option, Predicted, pareto_front, predict
from tvmake.benchmark.precision_choice import ChosenLayer, Effect, PrecisionChoice, choose, explain_choices
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.errors import DeviceError
from tvmake.quantize.precision import LayerAssignment, LayerPrecision
from tvmake.quantize.source.rounding import is_source_in_integers
from tvmake.stages.choices.precision_search.trials import Trial, Workbench, figures_of
from tvmake.transform.graph import float_network
from tvmake.transform.network_layers import NetworkLayer, network_layers

MOST_PARTS = 16
"""Parts of a network that are measured each alone. Where there are more layers, neighbours make a part together."""

NOISE_SAMPLES = 32
"""Samples that the noise of a part is measured on."""

MOST_PROMISING = 10
"""Assignments of the predicted front that are built and measured."""

MOST_NEIGHBOURS = 6
"""Assignments that differ in one part from the best one so far, and are measured next; so often as that finds a better one."""

MOST_IMPROVEMENTS = 3

WRONG = 1.0
"""Noise as strong as the output: a part that makes so much alone is wrong in that precision, and no assignment that has it so is tried."""

Parts = Sequence[Sequence[int]]


def search(bench: Workbench, request: ChoosePrecisionRequest) -> PrecisionChoice:
    """Measure, and choose.

    Raises:
        InputError: the network has no layers, or a pass fails.
        DeviceError: the device is lost, or nothing runs on it.
    """
    return _Search(bench, request).run()


def chosen_by_lock(bench: Workbench, request: ChoosePrecisionRequest, assignment: LayerAssignment) -> PrecisionChoice:
    """The choice that a lock names."""
    layers = _layers(bench, request)
    parts = parts_of(layers)
    return PrecisionChoice(
        assignment=assignment,
        chosen="",
        because="as the lock says",
        among=request.among,
        layers=_described(layers, parts),
    )


def parts_of(layers: Sequence[NetworkLayer], most: int = MOST_PARTS) -> list[list[int]]:
    """The layers between which there is something to choose, by their place, as at most so many parts of neighbours."""
    able = [number for number, layer in enumerate(layers) if len(layer.precisions) > 1]
    size = math.ceil(len(able) / most) if able else 1
    return [able[start : start + size] for start in range(0, len(able), size)]


def edges_of(layers: Sequence[NetworkLayer], parts: Parts) -> dict[tuple[int, int], int]:
    """How many elements go from one part to another one."""
    part_of = {layer: number for number, part in enumerate(parts) for layer in part}
    found: dict[tuple[int, int], int] = {}
    for number, layer in enumerate(layers):
        for source in layer.sources:
            first, second = part_of.get(source), part_of.get(number)
            if first is not None and second is not None and first < second:
                found[first, second] = found.get((first, second), 0) + layers[source].elements
    return found


def effects_as_options(
    among: Sequence[LayerPrecision],
    effects: Sequence[Effect],
    parts: int,
    sizes: Mapping[tuple[int, int], int],
    uniform_ms: Mapping[LayerPrecision, float],
) -> tuple[list[dict[LayerPrecision, Option]], list[Edge]]:
    """What parts and casts between them take, from what each part takes alone and the network as a whole.

    A part that has a precision alone pays for casts on all sides, which nothing pays where all have it. So the sum over all parts
    less what the whole network takes is twice the price of all casts. It is spread over the tensors by their size.

    Args:
        among: the base first.
        sizes: elements between parts.
        uniform_ms: latencies of the network with one precision throughout, the base's among them.
    """
    base, *others = among
    options: list[dict[LayerPrecision, Option]] = [{base: Option(0.0, 0.0)} for _ in range(parts)]
    prices: dict[tuple[int, int], dict[LayerPrecision, float]] = {ends: {} for ends in sizes}
    elements = sum(sizes.values())
    for precision in others:
        known = [one for one in effects if one.precision == precision and one.gain_ms is not None]
        each = 0.0
        if len(known) == parts and elements and precision in uniform_ms:
            apart = sum(-(one.gain_ms or 0.0) for one in known)
            each = max(0.0, apart - (uniform_ms[precision] - uniform_ms[base])) / 2 / elements
        for ends, size in sizes.items():
            prices[ends][precision] = each * size
        for one in known:
            around = sum(prices[ends][precision] for ends in sizes if one.part in ends)
            if (one.noise or 0.0) < WRONG:
                options[one.part][precision] = Option(-(one.gain_ms or 0.0) - around, one.noise or 0.0)
    return options, [Edge(*ends, cost_ms=prices[ends]) for ends in sizes]


def _layers(bench: Workbench, request: ChoosePrecisionRequest) -> list[NetworkLayer]:
    network = float_network(bench.module, bench.params, bench.transforming(LayerAssignment()))
    return network_layers(network, request.among, request.precision.never)


def _described(layers: Sequence[NetworkLayer], parts: Parts) -> list[ChosenLayer]:
    part_of = {layer: number for number, part in enumerate(parts) for layer in part}
    return [
        ChosenLayer(
            name=layer.name,
            operator=layer.operator,
            part=part_of.get(number, -1),
            able=list(layer.precisions),
            why_not=layer.why_not,
        )
        for number, layer in enumerate(layers)
    ]


class _Search:
    def __init__(self, bench: Workbench, request: ChoosePrecisionRequest):
        self.bench = bench
        self.request = request
        self.base = request.among[0]
        """The most accurate precision in which the network as a whole can be built and run: each part's, but for what is tried."""
        self.layers = _layers(bench, request)
        self.parts = parts_of(self.layers)
        self.candidates: dict[str, Trial] = {}
        self.predictions: dict[str, tuple[float, float]] = {}

    def run(self) -> PrecisionChoice:
        uniform = {
            one: trial
            for one in self.request.among
            if (trial := self._candidate(one, LayerAssignment(uniform=one))) is not None
        }
        self.base = next((one for one, trial in uniform.items() if not trial.problem), self.base)
        alone = self._alone()
        self.bench.time([*uniform.values(), *alone.values()])
        base_ms = uniform[self.base].latency_ms
        effects: list[Effect] = []
        if base_ms is not None:
            effects = self._effects(alone, uniform[self.base])
            uniform_ms = {one: trial.latency_ms for one, trial in uniform.items() if trial.latency_ms is not None}
            options, edges = effects_as_options(
                [self.base, *self._others], effects, len(self.parts), edges_of(self.layers, self.parts), uniform_ms
            )
            promising = thinned(pareto_front(options, edges, base_ms), MOST_PROMISING)
            self.bench.time([trial for one in promising if (trial := self._mixed(one)) is not None])
            self._improve(options, edges, base_ms)
        return self._decide(effects)

    @property
    def _others(self) -> list[LayerPrecision]:
        return [one for one in self.request.among if one != self.base]

    # --- what is built ----------------------------------------------------------------------------------------------

    def _candidate(self, name: str, assignment: LayerAssignment) -> Trial | None:
        """A network that may be chosen: built, and judged on all samples; None where it is the same as another one."""
        trial = Trial(name, assignment)
        self.bench.build(trial)
        if trial.deployment and any(trial.deployment == other.deployment for other in self.candidates.values()):
            return None
        self.bench.judge(trial)
        self.candidates[name] = trial
        return trial

    def _assignment(self, precisions: Sequence[LayerPrecision]) -> LayerAssignment:
        """Of parts to layers: those that cannot have their part's precision stay in the base."""
        layers: list[LayerPrecision] = [layer.precisions[0] for layer in self.layers]
        for part, precision in zip(self.parts, precisions, strict=True):
            for number in part:
                if precision in self.layers[number].precisions:
                    layers[number] = precision
        return LayerAssignment(layers=layers)

    def _mixed(self, predicted: Predicted) -> Trial | None:
        """A candidate that is made of parts; None where there is one with the same layers already."""
        assignment = self._assignment(predicted.precisions)
        if any(trial.assignment == assignment for trial in self.candidates.values()):
            return None
        name = f"mixed {sum(trial.assignment.uniform is None for trial in self.candidates.values()) + 1}"
        if (trial := self._candidate(name, assignment)) is not None:
            self.predictions[name] = (predicted.latency_ms, predicted.noise)
        return trial

    def _alone(self) -> dict[tuple[int, LayerPrecision], Trial]:
        """Each part in each precision, the others in the base."""
        found = {}
        for number, part in enumerate(self.parts):
            for precision in self._others:
                if not any(precision in self.layers[layer].precisions for layer in part):
                    continue
                precisions = [self.base] * len(self.parts)
                precisions[number] = precision
                trial = Trial(f"{precision} in part {number}", self._assignment(precisions))
                self.bench.build(trial)
                found[number, precision] = trial
        return found

    def _effects(self, alone: Mapping[tuple[int, LayerPrecision], Trial], base: Trial) -> list[Effect]:
        base_noise = self.bench.noise(base, NOISE_SAMPLES) or 0.0
        found = []
        for (part, precision), trial in alone.items():
            noise = self.bench.noise(trial, NOISE_SAMPLES)
            latency = trial.latency_ms
            has_failed = noise is None or latency is None or base.latency_ms is None
            found.append(
                Effect(
                    part=part,
                    precision=precision,
                    noise=None if noise is None else max(0.0, noise - base_noise),
                    gain_ms=None if has_failed else (base.latency_ms or 0.0) - (latency or 0.0),
                    problem=trial.problem,
                )
            )
        return found

    # --- what is measured next --------------------------------------------------------------------------------------

    def _improve(
        self, options: Sequence[Mapping[LayerPrecision, Option]], edges: Sequence[Edge], base_ms: float
    ) -> None:
        """Measure the neighbours of the best candidate that promise to be faster than it is, as long as one is."""
        for _ in range(MOST_IMPROVEMENTS):
            best = self._best()
            if best is None or best.assignment.uniform is not None:
                precisions = self._uniform_parts(best)
            else:
                precisions = self._parts_precisions(best.assignment)
            if precisions is None or any(one not in able for one, able in zip(precisions, options, strict=True)):
                return
            before = predict(options, edges, base_ms, precisions)
            near = [
                predict(options, edges, base_ms, [*precisions[:number], other, *precisions[number + 1 :]])
                for number, able in enumerate(options)
                for other in able
                if other != precisions[number]
            ]
            faster = sorted(
                (one for one in near if one.latency_ms < before.latency_ms), key=lambda one: (one.noise, one.precisions)
            )
            slower = sorted(
                (one for one in near if one.latency_ms >= before.latency_ms),
                key=lambda one: (one.latency_ms, one.precisions),
            )
            made: list[Trial] = []
            for one in [*faster, *slower]:
                if len(made) < MOST_NEIGHBOURS and (trial := self._mixed(one)) is not None:
                    made.append(trial)
            if not made:
                return
            self.bench.time([*([best] if best else []), *made])
            if self._best() is best:
                return

    def _best(self) -> Trial | None:
        trials = list(self.candidates.values())
        figures = [figures_of(trial, self.predictions) for trial in trials]
        return trials[choose(figures)[0]] if any(one.is_measured for one in figures) else None

    def _uniform_parts(self, best: Trial | None) -> list[LayerPrecision] | None:
        return None if best is None or best.assignment.uniform is None else [best.assignment.uniform] * len(self.parts)

    def _parts_precisions(self, assignment: LayerAssignment) -> list[LayerPrecision]:
        """Of each part: the precision of the first of its layers that is not in the base."""
        return [
            next((assignment.layers[layer] for layer in part if assignment.layers[layer] != self.base), self.base)
            for part in self.parts
        ]

    # --- the choice -------------------------------------------------------------------------------------------------

    def _decide(self, effects: list[Effect]) -> PrecisionChoice:
        trials = list(self.candidates.values())
        for trial in trials:
            trial.rounds_ms.clear()
        self.bench.time(trials)  # all by turns: what compares is what was measured together
        figures = [figures_of(trial, self.predictions) for trial in trials]
        if not any(one.is_measured for one in figures):
            problem = next((one.problem for one in figures if one.problem), "nothing could be measured")
            raise DeviceError(
                f"device '{self.request.device_name}'",
                f"no network runs in any of {', '.join(self.request.among)}: {problem}",
                "see the stage's log; make the precisions one by one to find out more",
            )
        place, because = choose(figures)
        chosen = figures[place]
        known = self.bench.known
        return PrecisionChoice(
            assignment=chosen.assignment,
            chosen=chosen.name,
            because=because,
            among=self.request.among,
            layers=_described(self.layers, self.parts),
            effects=effects,
            candidates=explain_choices(figures, place, because),
            data=known.info.data if known else "",
            samples=len(known) if known else 0,
            missed=chosen.missed,
            warnings=list(self._warnings()),
            fingerprint=self.bench.fingerprint,
        )

    def _warnings(self) -> Iterable[str]:
        known, where = self.bench.known, f"models.{self.request.model}"
        if known and known.info.data == "random":
            yield f"{where} has no dataset: noise and goals are of {len(known)} random inputs, which say little of real ones"
        elif known and len(known) == 1:
            yield f"{where}: noise and goals are of a single sample; give the dataset more"
        if not self.parts:
            why = (
                "is quantised already, and computed in its own integers at every precision"
                if is_source_in_integers(self.bench.module)
                else "has no convolution or product of matrices to choose for"
            )
            yield f"{where} {why}: only whole precisions were compared"
        kept = [f"{one.operator} '{one.name}' ({one.why_not})" for one in self.layers if len(one.precisions) == 1]
        if kept:
            yield f"not chosen for, because they can have one precision only: {', '.join(kept)}"


def thinned(front: Sequence[Predicted], most: int) -> list[Predicted]:
    """At most so many of a front, both ends among them, spread evenly over it."""
    if len(front) <= most:
        return list(front)
    return [front[round(place * (len(front) - 1) / (most - 1))] for place in range(most)]
