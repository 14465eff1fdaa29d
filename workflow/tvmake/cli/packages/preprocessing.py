"""``--preprocess KEY=VALUE``: how an image is converted to an input."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvmake.config.dataset import Preprocessing


def preprocessing(settings: list[str] | None) -> "Preprocessing":
    """The options as ``dataset.preprocess``.

    Raises:
        UsageError: an option is not KEY=VALUE, or its key is unknown.
    """
    from pydantic import ValidationError

    from tvmake.cli.configs import overlay
    from tvmake.config.dataset import Preprocessing
    from tvmake.errors import UsageError

    try:
        return Preprocessing.model_validate(overlay(settings, "--preprocess", "resize=256"))
    except ValidationError as error:
        from tvmake.config.reading.messages import message

        first = error.errors(include_url=False)[0]
        path = ("models", "*", "dataset", "preprocess", *map(str, first["loc"]))
        problem, remedy = message([first], path)
        key = ".".join(map(str, first["loc"][:1]))
        keys = f"the keys are {', '.join(Preprocessing.model_fields)}"
        raise UsageError(f"--preprocess {key}", problem, remedy or keys) from None
