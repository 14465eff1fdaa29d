"""Names of weights."""


def unused_name(base: str, names: set[str]) -> str:
    """``base``, with a number if ``names`` has it already; adds the result to ``names``."""
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}{number}"
    names.add(name)
    return name
