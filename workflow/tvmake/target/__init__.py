"""What a target means: TVM target, linker, lowering pipeline, and the wheel's defects with their remedies."""
