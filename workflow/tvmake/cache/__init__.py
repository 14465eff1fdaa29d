"""The cache for results of hermetic stages, shared between checkouts.

``key`` describes what a result depends on, ``identity`` and ``compiler`` the part of it that belongs to this machine. ``entry``
stores and checks results, in a ``directory`` or ``remote``ly, and ``step`` runs a stage with the cache.
"""
