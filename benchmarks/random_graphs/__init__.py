"""Random networks for benchmarks/random_networks.py.

A network is data: inputs, steps and outputs (``network``). The possible steps are in tables of kinds, ``images``, ``sequences``,
``shapes``, ``numbers`` and ``types``; ``drawing`` makes networks of them from a seed, ``reference`` says what they compute and
whether that can be judged, ``onnx_drawing`` does both for ONNX, ``trying`` builds and runs them, ``shrinking`` makes them small.
"""
