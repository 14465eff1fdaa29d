"""Draw the rooms of the package, floor by floor, and which room imports which: ``python docs/scripts/architecture.py``.

Floors are those of the import linter's contract in ``pyproject.toml``, imports and descriptions are read from the package.
An arrow that others imply is left out: what `cli` imports of `storage` is not drawn where `cli` imports `engine`, and
`engine` imports `storage`.
"""

import ast
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "workflow" / "tvmake"
FIGURE = ROOT / "docs" / "figures" / "architecture.svg"

ROW, GAP = 24, 8
"""Height of a room's line, and of the space between floors, in pixels."""
LEFT, NAMES, WIDTH = 250, 100, 1080
"""Where names begin, how wide their boxes are, and how wide the figure is."""
LINE_LENGTH = 110
"""Characters of a description that fit beside a room's name."""


def floors() -> list[list[str]]:
    """The rooms of each floor, the highest floor first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers"]
    return [[room.strip(" ()") for room in layer.replace(":", "|").split("|")] for layer in layers]


def imports(rooms: list[str]) -> dict[str, set[str]]:
    """Of each room, the rooms that its modules import."""
    graph = grimp.build_graph("tvmake", cache_dir=None)
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for module in graph.modules - {"tvmake"}:
        room = module.split(".")[1]
        targets = {target.split(".")[1] for target in graph.find_modules_directly_imported_by(module) if "." in target}
        found[room] |= targets - {room}
    return found


def without_implied(arrows: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows from which all others follow."""

    def reached(room: str) -> set[str]:
        return set().union(*({target} | reached(target) for target in arrows[room]))

    return sorted(
        (room, target)
        for room, targets in arrows.items()
        for target in targets
        if not any(target in reached(other) for other in targets - {target})
    )


def description(room: str) -> str:
    """The first sentence that a room's docstring says of it."""
    file = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    line = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    text = line.replace("``", "").partition(". ")[0].rstrip(".")
    return text if len(text) <= LINE_LENGTH else text[: LINE_LENGTH - 2].rpartition(" ")[0].rstrip(",:;") + " …"


def draw() -> str:
    """The figure, as SVG.

    Raises:
        ValueError: a room imports one that is not on a lower floor.
    """
    levels = floors()
    rooms = [room for level in levels for room in level]
    floor = {room: number for number, level in enumerate(levels) for room in level}
    arrows = imports(rooms)
    if upward := [(room, target) for room in rooms for target in arrows[room] if floor[target] <= floor[room]]:
        raise ValueError(f"not to a lower floor: {upward}")

    height: dict[str, int] = {}
    shapes: list[str] = []
    y = GAP
    for level in levels:
        shapes.append(f'<rect class="floor" x="4" y="{y}" width="{WIDTH - 8}" height="{ROW * len(level)}" rx="4"/>')
        for room in level:
            height[room] = y + ROW // 2
            shapes.append(f'<rect class="room" x="{LEFT}" y="{y + 3}" width="{NAMES}" height="{ROW - 6}" rx="3"/>')
            shapes.append(f'<text class="name" x="{LEFT + NAMES // 2}" y="{y + 16}">{room}</text>')
            shapes.append(f'<text x="{LEFT + NAMES + 12}" y="{y + 16}">{escape(description(room))}</text>')
            y += ROW
        y += GAP
    longest = max(height.values()) - min(height.values())
    for room, target in without_implied(arrows):
        start, end = height[room] + 4, height[target] - 4
        bend = round(LEFT - 24 - (LEFT + 40) * (end - start) / longest)
        curve = f"M{LEFT},{start} C{bend},{start} {bend},{end} {LEFT - 6},{end}"
        shapes.append(f'<path d="{curve}"><title>{room} imports {target}</title></path>')
    style = (
        ".floor{fill:#f3f4f6}.room{fill:#fff;stroke:#4b5563}text{font:12px sans-serif;fill:#111827}"
        ".name{font-weight:bold;text-anchor:middle}path{fill:none;stroke:#2563eb;stroke-opacity:.6;marker-end:url(#tip)}"
        "#tip path{fill:#2563eb;stroke:none;marker-end:none}"
    )
    tip = (
        '<marker id="tip" viewBox="0 0 6 6" refX="0" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0,0L6,3L0,6z"/></marker>'
    )
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">\n'
        f"<title>The rooms of tvmake by floor, and which imports which</title>\n"
        f'<style>{style}</style>\n<defs>{tip}</defs>\n<rect width="{WIDTH}" height="{y}" fill="#fff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    FIGURE.write_text(draw(), encoding="utf-8")
