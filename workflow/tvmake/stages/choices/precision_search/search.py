"""Find the precision of each layer: measure each part, predict combinations, then measure the best predictions."""

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
"""Maximum number of parts that are measured separately. In larger networks, neighbouring layers form a part."""

NOISE_SAMPLES = 32
"""Number of samples for the noise of a part."""

MOST_PROMISING = 10
"""Number of assignments of the predicted front that are built and measured."""

MOST_NEIGHBOURS = 6
"""Number of assignments, differing from the best in one part, that are measured next. Repeated while a better one is found."""

MOST_IMPROVEMENTS = 3

WRONG = 1.0
"""Noise as strong as the output: a part with this noise is wrong in that precision, and no assignment with it is tried."""

Parts = Sequence[Sequence[int]]


def search(bench: Workbench, request: ChoosePrecisionRequest) -> PrecisionChoice:
    """Measure and choose.

    Raises:
        InputError: the network has no layers, or a pass fails.
        DeviceError: the device is lost, or nothing runs on it.
    """
    return _Search(bench, request).run()


def chosen_by_lock(bench: Workbench, request: ChoosePrecisionRequest, assignment: LayerAssignment) -> PrecisionChoice:
    """The choice in a lock."""
    layers = _layers(bench, request)
    parts = parts_of(layers)
    return PrecisionChoice(
        assignment=assignment,
        chosen="",
        because="as the lock says",
        among=request.among,
        layers=_chosen_layers(layers, parts),
    )


def parts_of(layers: Sequence[NetworkLayer], most: int = MOST_PARTS) -> list[list[int]]:
    """Indices of the layers with a choice of precisions, in at most ``most`` parts of neighbours."""
    able = [number for number, layer in enumerate(layers) if len(layer.precisions) > 1]
    size = math.ceil(len(able) / most) if able else 1
    return [able[start : start + size] for start in range(0, len(able), size)]


def edges_of(layers: Sequence[NetworkLayer], parts: Parts) -> dict[tuple[int, int], int]:
    """Number of elements that pass from one part to another."""
    part_of = {layer: number for number, part in enumerate(parts) for layer in part}
    sizes: dict[tuple[int, int], int] = {}
    for number, layer in enumerate(layers):
        for source in layer.sources:
            first, second = part_of.get(source), part_of.get(number)
            if first is not None and second is not None and first < second:
                sizes[first, second] = sizes.get((first, second), 0) + layers[source].elements
    return sizes


def effects_as_options(
    among: Sequence[LayerPrecision],
    effects: Sequence[Effect],
    parts: int,
    sizes: Mapping[tuple[int, int], int],
    uniform_ms: Mapping[LayerPrecision, float],
) -> tuple[list[dict[LayerPrecision, Option]], list[Edge]]:
    """Costs of parts and of casts between them, from the measured cost of each part and of uniform networks.

    A part with its own precision pays for casts on all sides; a uniform network pays for none. So the sum over all parts,
    minus the uniform network's cost, is twice the cost of all casts. It is distributed over the tensors by their size.

    Args:
        among: precisions, the base first.
        sizes: elements between parts.
        uniform_ms: latencies of the network with one precision throughout, the base's among them.
    """
    base, *others = among
    options: list[dict[LayerPrecision, Option]] = [{base: Option(0.0, 0.0)} for _ in range(parts)]
    prices: dict[tuple[int, int], dict[LayerPrecision, float]] = {ends: {} for ends in sizes}
    elements = sum(sizes.values())
    for precision in others:
        known = [effect for effect in effects if effect.precision == precision and effect.gain_ms is not None]
        per_element = 0.0
        if len(known) == parts and elements and precision in uniform_ms:
            separate = sum(-(effect.gain_ms or 0.0) for effect in known)
            per_element = max(0.0, separate - (uniform_ms[precision] - uniform_ms[base])) / 2 / elements
        for ends, size in sizes.items():
            prices[ends][precision] = per_element * size
        for effect in known:
            around = sum(prices[ends][precision] for ends in sizes if effect.part in ends)
            if (effect.noise or 0.0) < WRONG:
                options[effect.part][precision] = Option(-(effect.gain_ms or 0.0) - around, effect.noise or 0.0)
    return options, [Edge(*ends, cost_ms=prices[ends]) for ends in sizes]


def _layers(bench: Workbench, request: ChoosePrecisionRequest) -> list[NetworkLayer]:
    network = float_network(bench.module, bench.params, bench.transforming(LayerAssignment()))
    return network_layers(network, request.among, request.precision.never)


def _chosen_layers(layers: Sequence[NetworkLayer], parts: Parts) -> list[ChosenLayer]:
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
        """The most accurate precision in which the whole network can be built and run: the default of each part."""
        self.layers = _layers(bench, request)
        self.parts = parts_of(self.layers)
        self.candidates: dict[str, Trial] = {}
        self.predictions: dict[str, tuple[float, float]] = {}

    def run(self) -> PrecisionChoice:
        uniform = {
            precision: trial
            for precision in self.request.among
            if (trial := self._candidate(precision, LayerAssignment(uniform=precision))) is not None
        }
        self.base = next((precision for precision, trial in uniform.items() if not trial.problem), self.base)
        single = self._single_parts()
        self.bench.time([*uniform.values(), *single.values()])
        base_ms = uniform[self.base].latency_ms
        effects: list[Effect] = []
        if base_ms is not None:
            effects = self._effects(single, uniform[self.base])
            uniform_ms = {
                precision: trial.latency_ms for precision, trial in uniform.items() if trial.latency_ms is not None
            }
            options, edges = effects_as_options(
                [self.base, *self._others], effects, len(self.parts), edges_of(self.layers, self.parts), uniform_ms
            )
            promising = thin_out(pareto_front(options, edges, base_ms), MOST_PROMISING)
            self.bench.time([trial for predicted in promising if (trial := self._mixed(predicted)) is not None])
            self._improve(options, edges, base_ms)
        return self._decide(effects)

    @property
    def _others(self) -> list[LayerPrecision]:
        return [precision for precision in self.request.among if precision != self.base]

    # --- building ---------------------------------------------------------------------------------------------------

    def _candidate(self, name: str, assignment: LayerAssignment) -> Trial | None:
        """Build a candidate and judge it on all samples; None if it equals another one."""
        trial = Trial(name, assignment)
        self.bench.build(trial)
        if trial.deployment and any(trial.deployment == candidate.deployment for candidate in self.candidates.values()):
            return None
        self.bench.judge(trial)
        self.candidates[name] = trial
        return trial

    def _assignment(self, precisions: Sequence[LayerPrecision]) -> LayerAssignment:
        """Assign parts' precisions to layers. Layers that cannot have their part's precision stay in the base."""
        layers: list[LayerPrecision] = [layer.precisions[0] for layer in self.layers]
        for part, precision in zip(self.parts, precisions, strict=True):
            for number in part:
                if precision in self.layers[number].precisions:
                    layers[number] = precision
        return LayerAssignment(layers=layers)

    def _mixed(self, predicted: Predicted) -> Trial | None:
        """A candidate from parts' precisions; None if there is one with the same layers."""
        assignment = self._assignment(predicted.precisions)
        if any(trial.assignment == assignment for trial in self.candidates.values()):
            return None
        name = f"mixed {sum(trial.assignment.uniform is None for trial in self.candidates.values()) + 1}"
        if (trial := self._candidate(name, assignment)) is not None:
            self.predictions[name] = (predicted.latency_ms, predicted.noise)
        return trial

    def _single_parts(self) -> dict[tuple[int, LayerPrecision], Trial]:
        """Each part in each other precision, with all other parts in the base."""
        trials = {}
        for number, part in enumerate(self.parts):
            for precision in self._others:
                if not any(precision in self.layers[layer].precisions for layer in part):
                    continue
                precisions = [self.base] * len(self.parts)
                precisions[number] = precision
                trial = Trial(f"{precision} in part {number}", self._assignment(precisions))
                self.bench.build(trial)
                trials[number, precision] = trial
        return trials

    def _effects(self, single: Mapping[tuple[int, LayerPrecision], Trial], base: Trial) -> list[Effect]:
        base_noise = self.bench.noise(base, NOISE_SAMPLES) or 0.0
        effects = []
        for (part, precision), trial in single.items():
            noise = self.bench.noise(trial, NOISE_SAMPLES)
            latency = trial.latency_ms
            has_failed = noise is None or latency is None or base.latency_ms is None
            effects.append(
                Effect(
                    part=part,
                    precision=precision,
                    noise=None if noise is None else max(0.0, noise - base_noise),
                    gain_ms=None if has_failed else (base.latency_ms or 0.0) - (latency or 0.0),
                    problem=trial.problem,
                )
            )
        return effects

    # --- improving --------------------------------------------------------------------------------------------------

    def _improve(
        self, options: Sequence[Mapping[LayerPrecision, Option]], edges: Sequence[Edge], base_ms: float
    ) -> None:
        """Measure neighbours of the best candidate that are predicted to be faster, as long as one is."""
        for _ in range(MOST_IMPROVEMENTS):
            best = self._best()
            if best is None or best.assignment.uniform is not None:
                precisions = self._uniform_parts(best)
            else:
                precisions = self._parts_precisions(best.assignment)
            if precisions is None or any(
                precision not in able for precision, able in zip(precisions, options, strict=True)
            ):
                return
            before = predict(options, edges, base_ms, precisions)
            near = [
                predict(options, edges, base_ms, [*precisions[:number], replacement, *precisions[number + 1 :]])
                for number, able in enumerate(options)
                for replacement in able
                if replacement != precisions[number]
            ]
            faster = sorted(
                (candidate for candidate in near if candidate.latency_ms < before.latency_ms),
                key=lambda candidate: (candidate.noise, candidate.precisions),
            )
            slower = sorted(
                (candidate for candidate in near if candidate.latency_ms >= before.latency_ms),
                key=lambda candidate: (candidate.latency_ms, candidate.precisions),
            )
            built: list[Trial] = []
            for candidate in [*faster, *slower]:
                if len(built) < MOST_NEIGHBOURS and (trial := self._mixed(candidate)) is not None:
                    built.append(trial)
            if not built:
                return
            self.bench.time([*([best] if best else []), *built])
            if self._best() is best:
                return

    def _best(self) -> Trial | None:
        trials = list(self.candidates.values())
        figures = [figures_of(trial, self.predictions) for trial in trials]
        return trials[choose(figures)[0]] if any(figure.is_measured for figure in figures) else None

    def _uniform_parts(self, best: Trial | None) -> list[LayerPrecision] | None:
        return None if best is None or best.assignment.uniform is None else [best.assignment.uniform] * len(self.parts)

    def _parts_precisions(self, assignment: LayerAssignment) -> list[LayerPrecision]:
        """The precision of each part: that of its first layer that is not in the base."""
        return [
            next((assignment.layers[layer] for layer in part if assignment.layers[layer] != self.base), self.base)
            for part in self.parts
        ]

    # --- the choice -------------------------------------------------------------------------------------------------

    def _decide(self, effects: list[Effect]) -> PrecisionChoice:
        trials = list(self.candidates.values())
        for trial in trials:
            trial.rounds_ms.clear()
        self.bench.time(trials)  # interleaved: only measurements of one session are comparable
        figures = [figures_of(trial, self.predictions) for trial in trials]
        if not any(figure.is_measured for figure in figures):
            problem = next((figure.problem for figure in figures if figure.problem), "nothing could be measured")
            raise DeviceError(
                f"device '{self.request.device_name}'",
                f"no network runs in any of {', '.join(self.request.among)}: {problem}",
                "see the stage's log; build the precisions separately for details",
            )
        index, because = choose(figures)
        chosen = figures[index]
        known = self.bench.known
        return PrecisionChoice(
            assignment=chosen.assignment,
            chosen=chosen.name,
            because=because,
            among=self.request.among,
            layers=_chosen_layers(self.layers, self.parts),
            effects=effects,
            candidates=explain_choices(figures, index, because),
            data=known.info.data if known else "",
            samples=len(known) if known else 0,
            missed=chosen.missed,
            warnings=list(self._warnings()),
            fingerprint=self.bench.fingerprint,
        )

    def _warnings(self) -> Iterable[str]:
        known, where = self.bench.known, f"models.{self.request.model}"
        if known and known.info.data == "random":
            yield f"{where} has no dataset: noise and goals come from {len(known)} random inputs, which may differ from real data"
        elif known and len(known) == 1:
            yield f"{where}: noise and goals come from a single sample; add samples to the dataset"
        if not self.parts:
            reason = (
                "is already quantised, and uses its own integers at every precision"
                if is_source_in_integers(self.bench.module)
                else "has no convolution or matmul to choose a precision for"
            )
            yield f"{where} {reason}: only uniform precisions were compared"
        kept = [
            f"{layer.operator} '{layer.name}' ({layer.why_not})" for layer in self.layers if len(layer.precisions) == 1
        ]
        if kept:
            yield f"layers with only one possible precision: {', '.join(kept)}"


def thin_out(front: Sequence[Predicted], most: int) -> list[Predicted]:
    """At most ``most`` entries of a front, spread evenly, with both ends."""
    if len(front) <= most:
        return list(front)
    return [front[round(index * (len(front) - 1) / (most - 1))] for index in range(most)]
