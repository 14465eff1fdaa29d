"""Names of the zoo's networks; ``frontend.zoo`` builds them."""

import difflib

ZOO = "zoo:"
"""Prefix of their names in a source."""

NETWORK_NAMES = (
    "inception_v3", "mobilenet_v1", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "squeezenet1_1", "vgg16",
)  # fmt: skip


def unknown_network(source: str) -> tuple[str, str] | None:
    """Problem and remedy of ``zoo:<name>`` for a name that the zoo does not have; None for every other source."""
    name = source.removeprefix(ZOO)
    if not source.startswith(ZOO) or name in NETWORK_NAMES:
        return None
    close = difflib.get_close_matches(name, NETWORK_NAMES, n=1)
    remedy = f"did you mean '{ZOO}{close[0]}'? " if close else ""
    return f"the zoo has no network '{name}'", f"{remedy}there are: {', '.join(NETWORK_NAMES)}"
