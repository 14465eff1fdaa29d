"""``--preprocess KEY=VALUE``: how a picture becomes an input."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvmake.config.dataset import Preprocessing


def preprocessing(settings: list[str] | None) -> "Preprocessing":
    """The options as ``dataset.preprocess`` would hold them.

    Raises:
        UsageError: an option is not KEY=VALUE, or no key of it.
    """
    from pydantic import ValidationError

    from tvmake.cli.configs import overlay
    from tvmake.config.dataset import Preprocessing
    from tvmake.errors import UsageError

    try:
        return Preprocessing.model_validate(overlay(settings, "--preprocess", "resize=256"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"][:1]))
        keys = ", ".join(Preprocessing.model_fields)
        raise UsageError(f"--preprocess {key}", first["msg"].lower(), f"the keys are {keys}") from None
