"""Before a run: which cache its steps use, and what is wrong with it."""

import os
import sys
from contextlib import suppress

from tvmake.cache import settings
from tvmake.cache.errors import CacheTroubleError
from tvmake.cache.open import open_store
from tvmake.config.cache import CacheConfig, as_text


def check_cache(config: CacheConfig | None) -> None:
    """Refuse what can be no cache; whether it can be reached is left to the run.

    Raises:
        TvmakeError: it can be none, or its secret cannot be read.
    """
    environment = dict(os.environ)
    settings.announce(config, environment)
    if (chosen := settings.configured(environment)) is not None:
        settings.secret(chosen)
        with suppress(CacheTroubleError):
            open_store(chosen)


def prepare_cache(config: CacheConfig | None, is_wanted: bool) -> None:
    """Choose the cache of a run's steps, and print once, before they run, what is wrong with it.

    Args:
        config: what the config wants.
        is_wanted: whether one may be used at all, whatever config and environment say.

    Raises:
        TvmakeError: it can be none, or its secret cannot be read.
    """
    if not is_wanted:
        os.environ[settings.VARIABLE] = settings.OFF
    settings.announce(config)
    chosen = settings.configured()
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
            f"warning: cache {settings.place(chosen)}: {problem}; what is made is not stored\n"
            "  make it writable, set cache.read_only, or give --no-cache",
            file=sys.stderr,
        )
        # Steps may still find what they need there, and need not repeat the warning.
        os.environ[settings.VARIABLE] = as_text(chosen.model_copy(update={"read_only": True}))
