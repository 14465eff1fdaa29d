"""Which modules read each source format, and which run it as the reference.

Named rather than imported: reading an ONNX file loads no torch, and a change in one format's modules reruns no other
format's models.
"""

TORCH_FRONTEND = ("tvmake.frontend.torch.importer", "tvmake.frontend.torch.source")

FRONTENDS: dict[str, tuple[str, ...]] = {
    "onnx": ("tvmake.frontend.onnx.importer",),
    "tflite": ("tvmake.frontend.tflite.importer",),
    "pt2": TORCH_FRONTEND,
    "keras": TORCH_FRONTEND,
    "factory": TORCH_FRONTEND,
    "zoo": TORCH_FRONTEND,
}
"""The first has ``read(source, options)``; for PyTorch it takes the program that the second's ``load_program`` gives."""

RUNTIMES: dict[str, str] = {
    "onnx": "tvmake.validate.reference_onnx",
    "tflite": "tvmake.validate.reference_tflite",
    "pt2": "tvmake.validate.reference_torch",
    "keras": "tvmake.validate.reference_torch",
    "factory": "tvmake.validate.reference_torch",
    "zoo": "tvmake.validate.reference_torch",
}
"""Each has ``open_model(source, options, signature) -> Runtime``."""
