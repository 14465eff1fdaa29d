"""Write the reference of the stages from their descriptors: ``python docs/scripts/stages.py``."""

from collections.abc import Iterator
from pathlib import Path

from tvmake.stages import registry
from tvmake.stages.descriptor import Output, Stage

PAGE = Path(__file__).resolve().parents[1] / "reference" / "stages.md"

INTRODUCTION = """# Stages

Every stage, in the order of the data flow. `tvmake step NAME --help` shows a stage's command, [results](results.md) explains
the files, and [architecture](../concepts/architecture.md) how stages fit together. This page is generated from the stages'
descriptors: `python docs/scripts/stages.py`.

- **One for each**: the combinations with a job of their own; `number` is a tuning round.
- **Same bytes**: the stage is hermetic: the same inputs give the same bytes. choose_layout, choose_precision and pick_best are
  hermetic if a [lock](../guides/rebuild.md) gives their results. The other stages measure.
- **Cached**: the [cache](../guides/cache.md) can store the results.
- **Device**: it runs on the target's device; *alone*: it needs this machine exclusively if the device is this machine.
- **MB, minutes**: resources of a job on a cluster. *+*: more with the size of the model's weights.
"""


def wildcards(output: Output) -> str:
    return " × ".join(output.wildcards) or "run"


def overview(stage: Stage) -> str:
    """The stage's row."""
    device = ("alone" if stage.is_alone else "yes") if stage.is_on_device else ""
    more = " +" if stage.holds_weights else ""
    kinds = "; ".join(dict.fromkeys(wildcards(output) for output in stage.outputs))
    cells = [
        f"[{stage.name}](#{stage.name})",
        kinds,
        "yes" if stage.is_hermetic else "",
        "yes" if stage.is_cached else "",
        device,
        f"{stage.memory_mb}{more}",
        f"{stage.minutes}{more}",
    ]
    return f"| {' | '.join(cells)} |"


def reads(stage: Stage) -> Iterator[str]:
    """The stages whose files a stage reads, as links."""
    makers = {
        name: maker.name
        for maker in registry.stages().values()
        for output in maker.outputs
        for name in (output.artifact, *output.members)
    }
    for entry in stage.inputs:
        if entry.is_source:
            yield "your files"
        yield from (f"[{makers[name]}](#{makers[name]})" for name in entry.names if makers[name] != stage.name)


def section(stage: Stage) -> Iterator[str]:
    """What the page says of one stage."""
    yield f"\n## {stage.name}\n"
    yield f"{stage.summary} Function: `{stage.module}.{stage.function.__name__}`.\n"
    if found := list(dict.fromkeys(reads(stage))):
        yield f"Reads from: {', '.join(found)}.\n"
    yield "| file | artifact |\n|---|---|"
    for output in stage.outputs:
        slash = "/" if output.is_directory else ""
        yield f"| `{output.path.replace('{results}', 'results')}{slash}` | `{output.artifact}` |"


def page() -> str:
    """The page, as Markdown."""
    stages = registry.stages().values()
    table = ["| stage | one for each | same bytes | cached | device | MB | minutes |", "|---|---|---|---|---|---|---|"]
    sections = [line for stage in stages for line in section(stage)]
    return "\n".join([INTRODUCTION, *table, *map(overview, stages), *sections]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
