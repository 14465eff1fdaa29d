"""What users of other programs call the keys and values of a config."""

OTHER_NAMES = {
    "fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16", "pytorch": "pt2", "torch": "pt2",
    "cpu": "llvm", "gpu": "cuda", "llvm": "ll", "aot": "compiled",
}  # fmt: skip
"""What values are called elsewhere, in small letters."""

ABSENT = {
    **dict.fromkeys(
        ("bfloat16", "bf16"),
        "nothing is computed in bfloat16; float16 takes as many bits, and float16_acc32 adds up in float32",
    ),
    **dict.fromkeys(("float64", "fp64", "double"), "nothing is computed in float64; float32 is the most accurate"),
    **dict.fromkeys(
        ("float8", "fp8"),
        "nothing is computed in 8-bit floats; int8 computes in 8-bit integers, int8_weights holds weights in them",
    ),
    "int4": "nothing is computed in 4 bits; int4_weights holds weights in them",
    "uint8": "int8 is 8-bit integers, whether they have a sign or not",
    "mixed": "float16 keeps in float32 what needs it (never:); auto chooses for each layer by measuring",
}
"""Precisions that there are elsewhere, and what to take."""

OTHER_KEYS = {
    "min": ["at_least"], "max": ["at_most"], "accuracy": ["top1"], "psnr": ["sqnr_db"], "file": ["source", "path"], "model": ["source"],
    "directory": ["where", "path"], "tuner": ["strategy", "cost_model"], "march": ["mcpu"], "iterations": ["repeat"],
}  # fmt: skip
"""What keys are called elsewhere, in small letters, and what they may mean."""

INCLUDING = ("include", "import", "extends")
"""What a config is taken into another one with, elsewhere."""

ALL_WORDS = ("all", "*")
"""For every choice there is."""
