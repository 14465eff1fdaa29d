"""The choice of precisions as the page shows it: the layers, and every candidate with its reason."""

import math

from tvmake.benchmark.precision_choice import PrecisionChoice, mix
from tvmake.report import quantities

Rows = tuple[tuple[str, ...], list[tuple[str, ...]], str]
"""Columns, rows, and a note."""


def facts(choice: PrecisionChoice) -> list[tuple[str, str]]:
    """What was chosen, and why, as name and value."""
    found = [
        ("chosen", choice.mix),
        ("why", choice.because),
        ("among", ", ".join(choice.among)),
    ]
    if choice.data:
        what = "samples of the dataset" if choice.data == "dataset" else "random inputs"
        found.append(("measured on", f"{choice.samples} {what}"))
    return found


def candidates(choice: PrecisionChoice) -> Rows:
    """Every network that was measured, the fastest first."""
    rows: list[tuple[str, ...]] = [
        (
            one.name,
            mix(one.assignment, len(choice.layers)),
            quantities.milliseconds(one.latency_ms),
            quantities.milliseconds(one.predicted_ms),
            quantities.level(one.sqnr_db),
            "yes" if one.is_on_front else "",
            ("chosen: " if one.name == choice.chosen else "") + one.reason,
        )
        for one in choice.candidates
    ]
    columns = ("candidate", "layers", "ms", "predicted ms", "SQNR", "on the front", "reason")
    note = (
        "Timed by turns; a latency is the smallest sample, so that it is below the benchmark's median. On the front is what no other "
        "candidate is both faster and more accurate than."
    )
    return columns, rows, note


def layers(choice: PrecisionChoice) -> Rows:
    """Every layer with its precision, and what the others would do to it."""
    others = choice.among[1:]
    effects = {(one.part, one.precision): one for one in choice.effects}
    assigned = [*choice.assignment.layers] or [choice.assignment.uniform or choice.among[0]] * len(choice.layers)
    rows: list[tuple[str, ...]] = []
    for layer, precision in zip(choice.layers, assigned, strict=True):
        cells = [layer.name, layer.operator, precision, str(layer.part) if layer.part >= 0 else ""]
        for other in others:
            effect = effects.get((layer.part, other))
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
        *(f"{one}: {what}" for one in others for what in ("gain ms", "SQNR")),
    )
    note = (
        "Layers of a part are measured together. The gain is what the network is faster by where only this part has the precision, casts "
        f"included; the SQNR is of the output then. All else is {choice.among[0]}."
    )
    return (*columns, "why not"), rows, note
