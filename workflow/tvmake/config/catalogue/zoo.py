"""The networks of the zoo, by name; ``frontend.zoo`` builds them."""

import difflib

ZOO = "zoo:"
"""Stands before their names in a source."""

NETWORK_NAMES = (
    "inception_v3", "mobilenet_v1", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "squeezenet1_1", "vgg16",
)  # fmt: skip


def check_network(source: str) -> None:
    """Refuse ``zoo:<name>`` for a name that the zoo does not have; other sources pass.

    Raises:
        ValueError: there is no such network; the text has problem and remedy.
    """
    name = source.removeprefix(ZOO)
    if source.startswith(ZOO) and name not in NETWORK_NAMES:
        close = difflib.get_close_matches(name, NETWORK_NAMES, n=1)
        remedy = f"did you mean '{ZOO}{close[0]}'? " if close else ""
        raise ValueError(f"the zoo has no network '{name}'; {remedy}there are: {', '.join(NETWORK_NAMES)}")
