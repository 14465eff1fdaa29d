"""Adreno GPUs: TVM's passes for them, and work-arounds for defects of the pinned TVM.

One module a defect, switched by TVM's version (``targets.affected``). For each there is a test in tests/targets/adreno_texture/
that shows the defect; when it fails, TVM has repaired it and the module can go.
"""
