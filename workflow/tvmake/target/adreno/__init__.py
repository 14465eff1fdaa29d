"""Adreno GPUs: TVM's passes for them, and what the pinned TVM gets wrong on the way, each with its remedy.

One module a defect, switched by TVM's version (``affected``). For each there is a test in tests/target/adreno/ that
shows the defect without the remedy; when it fails, TVM has mended it and the module can go.
"""
