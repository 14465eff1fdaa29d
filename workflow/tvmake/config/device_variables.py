"""``devices.<name>.env`` — variables for the processes that run packages. Their values are never written to files.

A value may be a password. Requests, locks, bundles and ``config.resolved.yaml`` contain only the names, each with null,
which means the value in tvmake's environment. A workflow passes the values of its config to its steps in
:data:`VARIABLE`.
"""

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, SecretStr, StringConstraints, WithJsonSchema

from tvmake.errors import MachineError

VARIABLE = "TVMAKE_DEVICE_VARIABLES"
"""Environment variable with JSON: for each device, the values in the config."""


def _value(value: Any) -> Any:
    # The type's own error messages would show the value.
    if value is None or isinstance(value, SecretStr):
        return value
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("expected a text (write numbers in quotes), or null for the value in tvmake's environment")
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
"""Variables by name; None takes the value from the environment."""


def announce(devices: Mapping[str, Any], environment: MutableMapping[str, str] = os.environ) -> None:
    """Export the values of all devices' variables to the steps that this process starts."""
    values = {name: _plain_values(variables) for name, device in devices.items() if (variables := variables_of(device))}
    values = {name: texts for name, texts in values.items() if texts}
    environment.pop(VARIABLE, None)
    if values:
        environment[VARIABLE] = json.dumps(values)


def variables_of(device: Any) -> dict[str, SecretStr | None]:
    """Return a device's variables; empty if it has no ``env``."""
    return dict(getattr(device, "env", {}))


def exported_variables(device: str) -> dict[str, SecretStr]:
    """Return the values of a device's variables that the workflow exports."""
    try:
        values = json.loads(os.environ.get(VARIABLE, "{}")).get(device, {})
        return {str(name): SecretStr(str(value)) for name, value in values.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def plain(variables: Mapping[str, SecretStr | None], where: str) -> dict[str, str]:
    """Return the plain values, for the process that receives them.

    Args:
        where: the owner of the variables, for errors.

    Raises:
        MachineError: a variable has no value on this machine.
    """
    values = {
        **{name: value for name in variables if (value := os.environ.get(name)) is not None},
        **_plain_values(variables),
    }
    for name in variables:
        if name not in values:
            raise MachineError(
                f"{where}: env.{name}",
                "has no value: files that tvmake writes contain only the names of variables",
                f"set it in the config, or export {name}",
            )
    return values


def _plain_values(variables: Mapping[str, SecretStr | None]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in variables.items() if value is not None}
