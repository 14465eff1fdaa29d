"""The cache in front of one run of a stage."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tvmake.cache import settings
from tvmake.cache.entry import describe, extract, read_header, size_of, write
from tvmake.cache.errors import BadEntryError, CacheTroubleError, NotCacheableError
from tvmake.cache.key import Material, Work, key, material
from tvmake.cache.line import CacheLine, Outcome, write_line
from tvmake.cache.open import open_store
from tvmake.cache.store import Store
from tvmake.config.cache import CacheConfig
from tvmake.errors import TvmakeError

Stamps = dict[str, tuple[int, ...]]


def run_cached(work: Work, run: Callable[[], object]) -> None:
    """Fetch a stage's outputs from the cache, or run it and store them.

    A problem with the cache never fails the stage: it is reported in one line, and the stage runs.

    Raises:
        TvmakeError: from the stage, or the cache's environment variable is invalid.
    """
    config = settings.configured_cache()
    if config is None:
        run()
        return
    try:
        before = _stamps(work)
        key_material = material(work)
        entry_key = key(key_material)
    except NotCacheableError as error:
        print(f"not cached: {error}")
        run()
        _note("not cacheable", work)
        return
    except (OSError, ValueError, TvmakeError):
        run()  # its message about the inputs is better
        _note("not cacheable", work)
        return
    opened = _open(config)
    outcome = _lookup(work, entry_key, opened, config) if opened else "unavailable"
    if outcome == "hit":
        return
    if opened is None or outcome == "unavailable":
        run()
        _note("unavailable", work, entry_key)
        return
    store, secret = opened
    began = time.monotonic()
    run()
    seconds = time.monotonic() - began
    stored = not config.read_only and _store_result(work, key_material, before, seconds, store, secret)
    _note(outcome, work, entry_key, stored=stored)


def _open(config: CacheConfig) -> tuple[Store, bytes | None] | None:
    try:
        return open_store(config), settings.secret(config)
    except TvmakeError as error:
        print(f"warning: {error.where}: {error.problem}; this step does without the cache", file=sys.stderr)
    except CacheTroubleError as error:
        _warn_without(config, error)
    return None


def _lookup(work: Work, entry_key: str, opened: tuple[Store, bytes | None], config: CacheConfig) -> Outcome:
    try:
        return "hit" if _take_entry(work, entry_key, opened[0], config, opened[1]) else "miss"
    except BadEntryError:
        return "refused"
    except CacheTroubleError as error:
        _warn_without(config, error)
        return "unavailable"


def _warn_without(config: CacheConfig, error: CacheTroubleError) -> None:
    print(f"warning: cache {settings.location(config)}: {error}; this step runs without it", file=sys.stderr)


def _take_entry(work: Work, entry_key: str, store: Store, config: CacheConfig, secret: bytes | None) -> bool:
    began = time.monotonic()
    with store.open(entry_key) as opened:
        if opened is None:
            return False
        file, size = opened
        try:
            header = read_header(file, size, entry_key, secret)
            extract(header, file, work.outputs)
        except BadEntryError as error:
            _refuse(entry_key, error, store, config)
            raise
    if not config.read_only:
        store.note_use(entry_key)
    print(f"taken from the cache {entry_key}")
    saved = max(0.0, header.run_s - (time.monotonic() - began))
    _note("hit", work, entry_key, size=header.content_bytes, saved_s=saved)
    return True


def _refuse(entry_key: str, error: BadEntryError, store: Store, config: CacheConfig) -> None:
    action = "left in place: the cache is read-only"
    if not config.read_only:
        try:
            store.remove([entry_key])
            action = "removed"
        except CacheTroubleError as trouble:
            action = f"left in place: it {trouble}"
    print(f"warning: cache {store.location}: entry {entry_key[:16]}… is not used: {error} ({action})", file=sys.stderr)


def _store_result(
    work: Work, key_material: Material, before: Stamps, seconds: float, store: Store, secret: bytes | None
) -> bool:
    try:
        # A link to an input changes its stamp only.
        if _stamps(work) != before and material(work) != key_material:
            raise NotCacheableError("an input changed while the stage ran")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        header = describe(key_material, work.outputs, round(seconds, 3), now)
        store.put(header.key, size_of(header), lambda file: write(header, work.outputs, file, secret))
    except (NotCacheableError, OSError, ValueError) as error:
        print(f"not cached: {error}")
        return False
    except CacheTroubleError as error:
        print(f"warning: cache {store.location}: {error}; the result is not stored", file=sys.stderr)
        return False
    return True


def _stamps(work: Work) -> Stamps:
    """A stamp that changes with a file: results for an input that changed after its digest was computed are not stored."""
    return {role: _stamp(path) for role, path in work.files().items()}


def _stamp(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _note(
    outcome: Outcome,
    work: Work,
    entry_key: str | None = None,
    size: int = 0,
    saved_s: float = 0.0,
    stored: bool = False,
) -> None:
    line = CacheLine(
        cache=outcome, stage=work.stage, key=entry_key, bytes=size, saved_s=round(saved_s, 2), stored=stored
    )
    print(write_line(line))
