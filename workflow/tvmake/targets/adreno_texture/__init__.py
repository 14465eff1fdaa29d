"""Adreno GPUs with textures: TVM's passes for them, and work-arounds for defects of the pinned TVM.

One module for each defect, enabled by TVM's version (``targets.affected``). A test in tests/targets/adreno_texture/
shows each defect; when it fails, TVM has fixed the defect and the module can go.
"""
