"""Choose the cache of a run's steps, and report problems with it."""

import os
import sys
from contextlib import suppress

from tvmake.cache import settings
from tvmake.cache.errors import CacheTroubleError
from tvmake.cache.open import open_store
from tvmake.config.cache import CacheConfig, as_text


def check_cache(config: CacheConfig | None) -> None:
    """Refuse an invalid cache, without checking whether it can be reached.

    Raises:
        TvmakeError: it is invalid, or its secret cannot be read.
    """
    environment = dict(os.environ)
    settings.announce(config, environment)
    if (chosen := settings.configured_cache(environment)) is not None:
        settings.secret(chosen)
        with suppress(CacheTroubleError):
            open_store(chosen)


def prepare_cache(config: CacheConfig | None, is_wanted: bool) -> None:
    """Choose the cache of a run's steps, and report a problem with it once, before they run.

    Args:
        config: the config's cache.
        is_wanted: whether to use a cache at all, regardless of config and environment.

    Raises:
        TvmakeError: it is invalid, or its secret cannot be read.
    """
    if not is_wanted:
        os.environ[settings.VARIABLE] = settings.OFF
    settings.announce(config)
    chosen = settings.configured_cache()
    if chosen is None:
        return
    settings.secret(chosen)
    try:
        store = open_store(chosen)
        problem = None if chosen.read_only else store.problem()
    except CacheTroubleError as error:
        problem = str(error)
    if problem:
        print(
            f"warning: cache {settings.location(chosen)}: {problem}; results are not stored\n"
            "  make it writable, set cache.read_only, or use --no-cache",
            file=sys.stderr,
        )
        # Steps may still read from it, and need not repeat the warning.
        os.environ[settings.VARIABLE] = as_text(chosen.model_copy(update={"read_only": True}))
