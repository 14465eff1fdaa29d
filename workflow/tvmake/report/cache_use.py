"""How many of a run's hermetic results came from the cache, counted in the steps' logs."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.cache.line import CacheLine, read_lines
from tvmake.config.requests.reporting import VariantRow
from tvmake.storage.documents import FailsFast

LOGS = Path("logs")
"""Where the rules put them."""


class CacheUse(FailsFast, BaseModel):
    """Where the results came from that this summary is about."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    hits: int
    """Results taken from the cache."""
    misses: int
    """Results that were not in it, whose entries were bad, or that could not be looked up."""
    refused: int = 0
    """How many of the misses had an entry that was bad."""
    unavailable: int = 0
    """How many of the misses are of a cache that failed."""
    stored: int = 0
    """Results that were added to it."""
    bytes: int = 0
    """Size of what was taken."""
    saved_s: float = 0.0
    """What the stages took when they were run, less what taking their results took; in seconds."""
    hit_rate: float
    """Hits as a share of all lookups."""


def cache_use(variants: Iterable[VariantRow], logs: Path = LOGS) -> CacheUse | None:
    """Count the cache lookups of the last run of each hermetic step; None where no cache was in use."""
    lines = [line for file in dict.fromkeys(_files(variants, logs)) for line in _lines_of(file)]
    lookups = [line for line in lines if line.cache != "not cacheable"]
    if not lookups:
        return None
    hits = [line for line in lookups if line.cache == "hit"]
    return CacheUse(
        hits=len(hits),
        misses=len(lookups) - len(hits),
        refused=sum(line.cache == "refused" for line in lookups),
        unavailable=sum(line.cache == "unavailable" for line in lookups),
        stored=sum(line.stored for line in lookups),
        bytes=sum(line.bytes for line in hits),
        saved_s=round(sum(line.saved_s for line in hits), 2),
        hit_rate=round(len(hits) / len(lookups), 4),
    )


def _files(variants: Iterable[VariantRow], logs: Path) -> Iterator[Path]:
    for variant in variants:
        model = logs / variant.model
        precision = model / variant.precision
        yield model / "import.log"
        if variant.layout == "auto":
            yield from sorted(precision.glob("layouts/*/transform.log"))
        else:
            yield precision / "transform.log"
        for stage in (*(("extract",) if variant.is_tuned else ()), "build", "export"):
            yield precision / variant.target / f"{stage}.log"


def _lines_of(log: Path) -> list[CacheLine]:
    try:
        return read_lines(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []  # deleted, or never made: a figure less, no failure
