"""Open the cache that a config names."""

from pathlib import Path

from tvmake.cache import settings
from tvmake.cache.directory import DirectoryStore
from tvmake.cache.store import Store
from tvmake.config.cache import CacheConfig


def open_store(config: CacheConfig) -> Store:
    """The cache of a config; a directory is created with the first entry.

    Raises:
        InputError: it cannot be a cache: a file, a directory that everyone may write, an unknown kind of URL.
        MachineError: a package for the URL is missing.
        CacheTroubleError: it cannot be reached.
    """
    if config.is_remote:
        from tvmake.cache.remote import RemoteStore  # fsspec takes half a second to import

        return RemoteStore(settings.location(config), config.limit_bytes)
    return DirectoryStore(Path(settings.directory(config)), config.limit_bytes)
