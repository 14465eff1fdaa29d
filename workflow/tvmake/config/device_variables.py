"""``devices.<name>.env`` — variables for the processes that run packages, whose values are kept out of all files.

A value may be a password. Requests, locks, bundles and ``config.resolved.yaml`` have the names alone, each with null, which stands for
the value that tvmake's own environment has. A workflow hands the values that its config holds to its steps in :data:`VARIABLE`.
"""

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, SecretStr, StringConstraints, WithJsonSchema

from tvmake.errors import MachineError

VARIABLE = "TVMAKE_DEVICE_VARIABLES"
"""Holds JSON: for each device, the values that the config gives."""


def _value(value: Any) -> Any:
    # Here, because errors of the type itself would show the value.
    if value is None or isinstance(value, SecretStr):
        return value
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(
            "expected a text (write numbers in quotes), or null for the value in the environment of tvmake"
        )
    return SecretStr(value)


VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

Variables = Annotated[
    dict[
        VariableName,
        Annotated[
            SecretStr | None,
            BeforeValidator(_value),
            WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]}, mode="validation"),
        ],
    ],
    PlainSerializer(lambda variables: dict.fromkeys(variables), when_used="json"),
]
"""Variables by name; None for one whose value the environment has."""


def announce(devices: Mapping[str, Any], environment: MutableMapping[str, str] = os.environ) -> None:
    """Give the steps that this process starts the values of all devices' variables."""
    values = {name: _known(variables) for name, device in devices.items() if (variables := variables_of(device))}
    values = {name: known for name, known in values.items() if known}
    environment.pop(VARIABLE, None)
    if values:
        environment[VARIABLE] = json.dumps(values)


def variables_of(device: Any) -> dict[str, SecretStr | None]:
    """A device's variables; none for a device that takes none."""
    return dict(getattr(device, "env", {}))


def announced(device: str, environment: Mapping[str, str] = os.environ) -> dict[str, SecretStr]:
    """The values that the workflow gives for the variables of a device."""
    try:
        values = json.loads(environment.get(VARIABLE, "{}")).get(device, {})
        return {str(name): SecretStr(str(value)) for name, value in values.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def plain(variables: Mapping[str, SecretStr | None], where: str) -> dict[str, str]:
    """The values themselves, for the process that gets them.

    Args:
        where: whose they are, for errors.

    Raises:
        MachineError: one has no value here.
    """
    found = {**{name: value for name in variables if (value := os.environ.get(name)) is not None}, **_known(variables)}
    for name in variables:
        if name not in found:
            raise MachineError(
                f"{where}: env.{name}",
                "has no value: files that tvmake writes have the names of variables only",
                f"set it in the config, or export {name}",
            )
    return found


def _known(variables: Mapping[str, SecretStr | None]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in variables.items() if value is not None}
