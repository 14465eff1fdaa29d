"""The figures of ``scale.py`` as a table with their growth, and as a plot."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any


def growth(points: Sequence[dict[str, Any]], name: str, unit: str, floor: float = 0.0) -> float:
    """The exponent of a power law through the points, by least squares on logarithms.

    Args:
        floor: what a command costs without any job, taken off first.
    """
    pairs = [(math.log(point["jobs"]), math.log(max(1e-3, point["figures"][name][unit] - floor))) for point in points]
    x_mean, y_mean = (sum(pair[axis] for pair in pairs) / len(pairs) for axis in (0, 1))
    return sum((x - x_mean) * (y - y_mean) for x, y in pairs) / sum((x - x_mean) ** 2 for x, _ in pairs)


def show(points: Sequence[dict[str, Any]]) -> None:
    """The figures as a table, and how they grow."""
    for name in points[0]["figures"]:
        print(f"\n{name}")
        for point in points:
            found = point["figures"][name]
            print(
                f"  {point['jobs']:>6} jobs  {found['seconds']:>8.2f} s  {found['processor_s']:>8.2f} s of processor"
                f"  {found['peak_mb']:>6.0f} MB  {1000 * found['processor_s'] / point['jobs']:>7.2f} ms a job"
            )
        for before, after in pairwise(points):
            exponent = growth([before, after], name, "processor_s")
            print(f"  {before['jobs']} to {after['jobs']} jobs: processor time grows as jobs^{exponent:.2f}")
        if len(points) > 2:
            print(f"  all: seconds as jobs^{growth(points, name, 'processor_s'):.2f}")


def plot(points: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]], destination: Path) -> None:
    """Seconds and memory of commands over jobs, and what scheduling a job costs; all axes logarithmic."""
    import altair

    commands = [
        {"jobs": point["jobs"], "line": name, "what": what, "value": point["figures"][name][unit]}
        for point in points
        for name in points[0]["figures"]
        for what, unit in (("processor seconds", "processor_s"), ("peak MB", "peak_mb"))
    ]
    scheduling = [
        {
            "jobs": run["jobs"],
            "line": "a run",
            "what": "processor ms a scheduled job",
            "value": run["processor_ms_a_job"],
        }
        for run in runs
    ]
    charts = []
    for rows in (commands, scheduling):
        same_colors = []
        for what in dict.fromkeys(row["what"] for row in rows):
            data = altair.Data(values=[row for row in rows if row["what"] == what])
            lines = list(dict.fromkeys(row["line"] for row in rows))
            same_colors.append(
                altair.Chart(data, width=300, height=260)
                .mark_line(point=True)
                .encode(
                    x=altair.X("jobs:Q", scale=altair.Scale(type="log"), title="jobs"),
                    y=altair.Y("value:Q", scale=altair.Scale(type="log"), title=what),
                    color=altair.Color(
                        "line:N", title=None, sort=lines, legend=altair.Legend(orient="bottom", columns=2)
                    ),
                )
            )
        if same_colors:
            charts.append(altair.hconcat(*same_colors))
    destination.parent.mkdir(parents=True, exist_ok=True)
    altair.hconcat(*charts).resolve_scale(color="independent").save(str(destination))
    print(f"\nplot: {destination}")
