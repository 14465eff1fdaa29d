"""Random networks, as benchmarks/random_networks.py tries them.

A network is data: inputs, steps and outputs (``network``). What a step may be stands in tables of kinds, ``pictures``, ``sequences``,
``shapes``, ``numbers`` and ``types``; ``drawing`` makes networks of them from a seed, ``reference`` says what they compute and
whether that can be judged, ``onnx_drawing`` does both for ONNX, ``trying`` builds and runs them, ``shrinking`` makes them small.
"""
