"""For all tests: which come first when several processes share them."""

import pytest

LONGEST_FIRST = ("networks", "workflow", "tune", "device", "native")
"""Rooms whose files take longest. What comes last is short, so that no process goes on long after the others."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # pytest-xdist; use --no-loadscope-reorder, or it puts files with few tests last
        items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    room = "".join(nodeid.split("/")[1:2])
    return LONGEST_FIRST.index(room) if room in LONGEST_FIRST else len(LONGEST_FIRST)
