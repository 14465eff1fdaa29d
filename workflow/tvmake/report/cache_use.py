"""How many of a run's hermetic results came from the cache, counted in the steps' logs."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.cache.line import CacheLine, read_lines
from tvmake.config.requests.reporting import VariantRow
from tvmake.report import quantities
from tvmake.storage.documents import FailsFast


class CacheUse(FailsFast, BaseModel):
    """The origin of a summary's results."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    hits: int
    """Results from the cache."""
    misses: int
    """Results that were not in it, whose entries were bad, or that could not be looked up."""
    refused: int = 0
    """How many of the misses had an entry that was bad."""
    unavailable: int = 0
    """Misses because the cache failed."""
    stored: int = 0
    """Results that were added to it."""
    bytes: int = 0
    """Size of the results from the cache, in bytes."""
    saved_s: float = 0.0
    """The stages' run times minus the times to fetch their results, in seconds."""
    hit_rate: float
    """Hits as a share of all lookups."""


def cache_use(variants: Iterable[VariantRow], logs: Path) -> CacheUse | None:
    """Count the cache lookups in the last run of each hermetic step; None without a cache."""
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


def cache_text(use: CacheUse) -> str:
    """``9 of 10 results taken from it (90 %), 12 s of work saved``: the use of the cache in one line."""
    lookups = use.hits + use.misses
    bad = [f"{use.refused} refused"] if use.refused else []
    bad += [f"{use.unavailable} could not be asked for"] if use.unavailable else []
    notes = "".join(f", {note}" for note in bad)
    saved = f", {use.saved_s:.0f} s of work saved" if use.hits else ""
    return f"{use.hits} of {lookups} results taken from it ({quantities.share(use.hit_rate, 0)}){saved}{notes}"


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
        return []  # deleted, or never written: the count is lower, without an error
