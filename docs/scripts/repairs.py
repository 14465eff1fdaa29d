"""Write the page of repairs from their objects: ``python docs/scripts/repairs.py``."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import get_args

from tvmake.repairs.registry import REPAIRS, modules_by_repair
from tvmake.repairs.repair import Layer, Repair

ROOT = Path(__file__).resolve().parents[2]

PAGE = ROOT / "docs" / "reference" / "repairs.md"

INTRODUCTION = """# Repairs

Defects of other projects that tvmake works around: what each is, what users would see, and the script that shows it with that
project's release alone. A script exits with 1 while the defect exists:

    python upstream/tvm/texture_vector_store.py
    python upstream/check.py              # all of them: names those that are gone

`upstream/README.md` says how to try another release. This page is generated from the objects in `workflow/tvmake/repairs/`:
`python docs/scripts/repairs.py`.
"""

PROJECTS = {"tvm": "TVM", "torch": "PyTorch", "onnx": "ONNX", "onnxruntime": "ONNX Runtime", "snakemake": "Snakemake"}
LAYERS = get_args(Layer)


def page() -> str:
    """The page of all repairs, by project and layer."""
    modules = modules_by_repair()
    parts = [INTRODUCTION]
    ordered = sorted(
        REPAIRS.values(),
        key=lambda repair: (list(PROJECTS).index(repair.project), LAYERS.index(repair.layer), repair.name),
    )
    for (project, layer), repairs in groupby(ordered, key=lambda repair: (repair.project, repair.layer)):
        parts.append(f"## {PROJECTS[project]}: {layer}\n")
        for repair in repairs:
            parts.append("\n".join(entry(repair, modules[repair.name])) + "\n")
    return "\n".join(parts)


def entry(repair: Repair, modules: tuple[str, ...]) -> Iterator[str]:
    """A repair's section."""
    yield f"### {repair.name}\n"
    yield f"{code(repair.defect)}\n"
    yield f"- **Effect**: {code(repair.effect)}"
    yield f"- **Reported**: {repair.upstream}; known in {repair.releases}"
    if repair.applies_to:
        yield f"- **Backends**: {', '.join(repair.applies_to)}"
    yield f"- **Reproducer**: {f'`{repair.probe}`' if repair.probe else f'none: {repair.no_probe}'}"
    yield f"- **Worked around in**: {', '.join(f'`{module}`' for module in modules)}"


def code(text: str) -> str:
    """Text with Markdown's marks for code."""
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
