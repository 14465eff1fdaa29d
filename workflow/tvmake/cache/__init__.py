"""The cache in front of the hermetic stages: what one checkout made, another one takes.

``key`` is what a result is made of, ``identity`` and ``compiler`` what this machine adds to that, ``entry`` how results
are stored and checked, ``directory`` and ``remote`` where, ``eviction`` what has to go, ``step`` puts all of it in front
of a stage. The stages know nothing of it.
"""
