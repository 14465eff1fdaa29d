"""The cache of a step: an environment variable, so that stage options and rule parameters do not contain it.

The Snakefile and ``tvmake make`` set it from the config's ``cache:``, unless it is set already, by a user or for a whole
machine.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

from pydantic import ValidationError

from tvmake.config.cache import CacheConfig, as_text, from_text
from tvmake.errors import InputError, MachineError
from tvmake.storage.directories import cache_directory

VARIABLE = "TVMAKE_CACHE"

OFF = "off"

SECRET_VARIABLE = "TVMAKE_CACHE_SECRET_FILE"
"""The variable with the secret's file, for machines that store it elsewhere than the config says."""

SHORTEST_SECRET = 16
"""Bytes: fewer can be guessed."""


def announce(config: CacheConfig | None, environment: MutableMapping[str, str] = os.environ) -> None:
    """Put the config's cache into the environment of the steps started from here; a variable that is set already stays."""
    if config is not None:
        environment.setdefault(VARIABLE, as_text(config))


def configured_cache(environment: MutableMapping[str, str] = os.environ) -> CacheConfig | None:
    """The cache to use; None for none.

    Raises:
        InputError: the environment variable cannot be read as a cache.
    """
    setting = environment.get(VARIABLE, OFF)
    try:
        return from_text(setting)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        problem = f"{key}: {first['msg']}" if key else first["msg"]
    except ValueError as error:
        problem = str(error)
    raise InputError(VARIABLE, problem, "set it to a directory, a URL, on, off, or a mapping as JSON")


def directory(config: CacheConfig) -> Path:
    """The directory of a cache without a URL."""
    if config.where is not None:
        return Path(config.where.removeprefix("file://")).expanduser()
    return cache_directory("cache")


def location(config: CacheConfig) -> str:
    """The cache's directory or URL, for people."""
    return str(config.where) if config.is_remote else str(directory(config))


def secret(config: CacheConfig) -> bytes | None:
    """The secret that seals entries; None if none is configured.

    Raises:
        MachineError: its file is missing, unreadable, too short, or readable by everyone.
    """
    name = os.environ.get(SECRET_VARIABLE) or config.secret_file
    if name is None:
        return None
    file = Path(name).expanduser()
    try:
        content = file.read_bytes().strip()
        is_open = bool(file.stat().st_mode & 0o004)
    except OSError as error:
        raise MachineError(
            f"cache.secret_file: {file}",
            f"cannot be read ({error.strerror})",
            f"put the secret that you share there, or name its file with {SECRET_VARIABLE}",
        ) from None
    if len(content) < SHORTEST_SECRET:
        raise MachineError(
            f"cache.secret_file: {file}", f"is shorter than {SHORTEST_SECRET} bytes", "openssl rand -hex 32 > FILE"
        )
    if is_open:
        raise MachineError(f"cache.secret_file: {file}", "can be read by everyone", f"chmod o-r {file}")
    return content
