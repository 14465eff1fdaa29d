"""Names of keys and values in other programs, which users try in a config."""

OTHER_NAMES = {
    "fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16", "pytorch": "pt2", "torch": "pt2",
    "cpu": "llvm", "gpu": "cuda", "llvm": "ll", "aot": "compiled",
}  # fmt: skip
"""Values of other programs in lower case, with their names here."""

ABSENT = {
    **dict.fromkeys(
        ("bfloat16", "bf16"),
        "bfloat16 is not supported; float16 has the same size, and float16_acc32 accumulates in float32",
    ),
    **dict.fromkeys(("float64", "fp64", "double"), "float64 is not supported; float32 is the most accurate"),
    **dict.fromkeys(
        ("float8", "fp8"),
        "8-bit floats are not supported; int8 computes in 8-bit integers, int8_weights stores weights in them",
    ),
    "int4": "4-bit arithmetic is not supported; int4_weights stores weights in 4 bits",
    "uint8": "int8 covers signed and unsigned 8-bit integers",
    "mixed": "float16 keeps sensitive operators in float32 (never:); auto chooses for each layer by measuring",
}
"""Remedies for precisions of other programs."""

OTHER_KEYS = {
    "min": ["at_least"], "max": ["at_most"], "accuracy": ["top1"], "psnr": ["sqnr_db"], "file": ["source", "path"], "model": ["source"],
    "directory": ["where", "path"], "tuner": ["cost_model"], "march": ["mcpu"], "iterations": ["repeat"], "passes": ["rounds"],
}  # fmt: skip
"""Keys of other programs in lower case, with candidates here."""
