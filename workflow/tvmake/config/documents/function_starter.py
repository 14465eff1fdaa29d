"""The commented config that ``tvmake init`` writes for a model with several functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmake.config.documents.starter import (
    AXES,
    STAGES,
    Bounds,
    StarterInput,
    dimension_comments,
    format_lines,
    head,
    input_comments,
    source_lines,
    yaml_text,
)  # fmt: skip


@dataclass(frozen=True)
class StarterFunction:
    """One function of a model with several."""

    source: str
    kind: str
    inputs: Sequence[StarterInput]
    bounds: Bounds
    files: Sequence[str]
    state: Mapping[str, str]
    arguments: dict[str, object]


def function_starter(
    model: str,
    functions: Mapping[str, StarterFunction],
    links: Mapping[str, Mapping[str, str]],
    separate: Sequence[str],
) -> str:
    """Return a config for a model with several functions as YAML text.

    Args:
        model: its name.
        links: by function: outputs that seem to be inputs or states of others.
        separate: states that seem not to be shared.
    """
    lines = [
        "models:",
        f"  {yaml_text(model)}:  # name of its results",
        "    # The functions of one package. The first one chooses the layout of weights that they share: name the one that runs",
        "    # most often first.",
        "    functions:",
    ]
    for name, function in functions.items():
        _, _, *own = source_lines(function.source, function.kind, function.files)
        own += format_lines(function.kind, function.arguments)
        if function.state:
            own += [
                "    # Inputs whose next value is an output, by their names: the package keeps them from run to run.",
                f"    state: {_flow(function.state)}",
            ]
        own += [*input_comments(function.inputs, function.kind), *dimension_comments(function.inputs, function.bounds)]
        lines += [f"      {name}:", *(f"    {line}" for line in own)]
    if links:
        lines += [
            "    # Outputs that are inputs or states of other functions, by their names. In a session they need not be passed.",
            "    links:",
            *(f"      {name}: {_flow(pairs)}" for name, pairs in links.items()),
        ]
    if separate:
        lines += [
            "    # States of the same name, type and shape that the functions do not share.",
            f"    separate_states: [{', '.join(map(yaml_text, separate))}]",
        ]
    text = "\n".join(lines)
    parts = [head(", ".join(function.source for function in functions.values())), text, AXES, STAGES]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _flow(pairs: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{yaml_text(left)}: {yaml_text(right)}' for left, right in pairs.items())}}}"
