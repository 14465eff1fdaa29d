"""The contents of a bundle: bundle.json lists every file with size and digest."""

from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from tvmake.artifact.manifest import FileEntry
from tvmake.errors import InputError
from tvmake.lock.document import Lock
from tvmake.storage.documents import FailsFast, parse
from tvmake.storage.files import canonical_json

SCHEMA_VERSION: Final = 1

CONTENTS = "bundle.json"
LOCK = "run.lock"
CONFIG = "tvmake.yaml"
RECORDS = "records.jsonl.gz"
PACKAGES = "packages/"
INPUTS = "inputs/"
"""The members of a bundle; packages are in ``packages/<model>/<precision>/<target>/``, inputs have the names in the config."""

MOST_CONTENTS_BYTES = 64 << 20
"""bundle.json is read as a whole."""

AGAIN = "copy the bundle again from its source"


class Contents(FailsFast, BaseModel):
    """bundle.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = SCHEMA_VERSION
    written_by: str
    files: dict[str, FileEntry]
    """Every other member."""


class _Version(FailsFast, BaseModel):
    model_config = ConfigDict(extra="ignore")

    schema_version: JsonValue = None


def config_text(locked: Lock) -> str:
    """The config of a locked run, as a file."""
    return yaml.safe_dump(locked.origins.config, sort_keys=False, allow_unicode=True)


def parse_contents(data: bytes, bundle: Path) -> Contents:
    """Read bundle.json.

    Raises:
        InputError: damaged, or of another schema version.
    """
    try:
        version = parse(_Version, data).schema_version
    except ValidationError:
        raise InputError(str(bundle), f"{CONTENTS} is damaged: not a JSON object", AGAIN) from None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        shown = canonical_json(version)[:20]
        raise InputError(
            str(bundle), f"has schema version {shown}, expected {SCHEMA_VERSION}", "use the tvmake that wrote it"
        )
    try:
        return parse(Contents, data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(str(bundle), f"{CONTENTS} is damaged ({key}: {first['msg'].lower()})", AGAIN) from None
