"""Results of a series of rounds by fault, as a Markdown table and as JSON."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from comparing import machine

from faults.kinds import FAULTS
from faults.rounds import Round


def markdown(rounds: Sequence[Round], seed: int) -> str:
    """Rounds of each fault, how many of them ended the run, and how often the command was given again."""
    failed = [one for one in rounds if one.problems]
    seconds = [one.seconds for one in rounds]
    lines = [
        f"{len(rounds)} rounds from seed {seed}, {len(failed)} with something wrong; {statistics.median(seconds):.0f} s"
        f" a round (median), {sum(seconds) / 60:.0f} min in all.",
        "",
        f"({machine()})",
        "",
        "| fault | rounds | the run failed | reruns in all | at most | something wrong |",
        "|---|---|---|---|---|---|",
    ]
    for name in FAULTS:
        if own := [one for one in rounds if name in one.faults]:
            lines.append(_row(name, own))
    lines.append(_row("all", rounds))
    for one in failed:
        lines += ["", f"Round {one.number} ({', '.join(one.faults)}; from {one.removed_from}):"]
        lines += [f"- {problem}" for problem in one.problems]
    return "\n".join(lines)


def _row(name: str, rounds: Sequence[Round]) -> str:
    reruns = [one.reruns for one in rounds]
    figures = (
        len(rounds),
        sum(one.code != 0 for one in rounds),
        sum(reruns),
        max(reruns),
        sum(bool(one.problems) for one in rounds),
    )
    return f"| {name} | {' | '.join(map(str, figures))} |"


def as_json(rounds: Sequence[Round], seed: int) -> str:
    """Everything, as one line."""
    return json.dumps({"seed": seed, "rounds": [asdict(one) for one in rounds], "where": machine()})
