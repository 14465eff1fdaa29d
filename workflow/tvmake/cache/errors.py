"""Errors of a cache, none of which may fail a build."""


class CacheTroubleError(Exception):
    """The cache cannot be reached, read or written now; the stage runs without it. The text is one line."""


class BadEntryError(Exception):
    """An entry that is damaged, forged, or does not match its name; the text is the reason, in one line."""


class NotCacheableError(Exception):
    """A result that may depend on something outside the key; the text names it, in one line."""
