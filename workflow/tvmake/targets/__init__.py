"""Targets: TVM target, linker, lowering pipeline, and work-arounds for defects of the wheel."""
