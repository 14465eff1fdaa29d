"""The choice of precisions as the page shows it: the layers, and every candidate with its reason."""

import math

from tvmake.benchmark.precision_choice import PrecisionChoice, mix
from tvmake.report import quantities

Rows = tuple[tuple[str, ...], list[tuple[str, ...]], str]
"""Columns, rows, and a note."""


def facts(choice: PrecisionChoice) -> list[tuple[str, str]]:
    """The choice and its reason, as name and value."""
    pairs = [
        ("chosen", choice.mix),
        ("why", choice.because),
        ("among", ", ".join(choice.among)),
    ]
    if choice.data:
        what = "samples of the dataset" if choice.data == "dataset" else "random inputs"
        pairs.append(("measured on", f"{choice.samples} {what}"))
    return pairs


def candidates(choice: PrecisionChoice) -> Rows:
    """Every network that was measured, the fastest first."""
    rows: list[tuple[str, ...]] = [
        (
            candidate.name,
            mix(candidate.assignment, len(choice.layers)),
            quantities.milliseconds(candidate.latency_ms),
            quantities.milliseconds(candidate.predicted_ms),
            quantities.level(candidate.sqnr_db),
            "yes" if candidate.is_on_front else "",
            ("chosen: " if candidate.name == choice.chosen else "") + candidate.reason,
        )
        for candidate in choice.candidates
    ]
    columns = ("candidate", "layers", "ms", "predicted ms", "SQNR", "on the front", "reason")
    note = (
        "Timed alternately; a latency is the minimum of the samples, so it is below the benchmark's median. The front has the candidates that no other "
        "candidate is both faster and more accurate than."
    )
    return columns, rows, note


def layers(choice: PrecisionChoice) -> Rows:
    """Every layer with its precision, and the effect of the other precisions."""
    others = choice.among[1:]
    effects = {(effect.part, effect.precision): effect for effect in choice.effects}
    assigned = [*choice.assignment.layers] or [choice.assignment.uniform or choice.among[0]] * len(choice.layers)
    rows: list[tuple[str, ...]] = []
    for layer, precision in zip(choice.layers, assigned, strict=True):
        cells = [layer.name, layer.operator, precision, str(layer.part) if layer.part >= 0 else ""]
        for precision_name in others:
            effect = effects.get((layer.part, precision_name))
            cells += [
                "" if effect is None or effect.gain_ms is None else f"{effect.gain_ms:+.4g}",
                "" if effect is None or not effect.noise else f"{-10 * math.log10(effect.noise):.1f} dB",
            ]
        rows.append((*cells, layer.why_not))
    columns = (
        "layer",
        "operator",
        "precision",
        "part",
        *(f"{precision_name}: {what}" for precision_name in others for what in ("gain ms", "SQNR")),
    )
    note = (
        "Layers of a part are measured together. The gain is the network's speedup if only this part has the precision, casts "
        f"included; the SQNR is that of the output. All other layers are {choice.among[0]}."
    )
    return (*columns, "why not"), rows, note
