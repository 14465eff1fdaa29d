"""The figures of ``precision_choice.py`` as a plot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_figure(found: Mapping[str, Any], destination: Path) -> None:
    """Latency, as a share of float32's of the same run, against SQNR: a panel a network, uniform and chosen candidates named."""
    import altair

    panels = []
    for name, row in found.items():
        choice = row["choice"]
        base = next(one["latency_ms"] for one in choice["candidates"] if one["name"] == choice["among"][0])
        points = [
            {
                "latency": one["latency_ms"] / base,
                "SQNR": min(one["sqnr_db"], 140.0),
                "candidate": "chosen"
                if one["name"] == choice["chosen"]
                else one["name"]
                if one["name"] in choice["among"]
                else "mixed",
                "front": one["is_on_front"],
            }
            for one in choice["candidates"]
            if one["latency_ms"] is not None and one["sqnr_db"] is not None
        ]
        panels.append(
            altair.Chart(altair.Data(values=points), title=name)
            .mark_point(filled=True, size=60)
            .encode(
                x=altair.X("latency:Q", title="latency, share of float32's"),
                y=altair.Y("SQNR:Q", title="SQNR (dB)", scale=altair.Scale(zero=False)),
                color=altair.Color("candidate:N", title=None),
                opacity=altair.condition("datum.front", altair.value(1.0), altair.value(0.35)),
            )
            .properties(width=300, height=240)
        )
    machine = next(iter(found.values()))["machine"]
    altair.hconcat(*panels).properties(title=machine).save(str(destination))
