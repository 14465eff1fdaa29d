"""What users of other programs call the keys and values of a config."""

OTHER_NAMES = {
    "fp32": "float32", "f32": "float32", "float": "float32", "single": "float32",
    "fp16": "float16", "f16": "float16", "half": "float16", "tensorfloat32": "tf32", "tensor_float32": "tf32",
    "pytorch": "pt2", "torch": "pt2", "tensorflow": "tflite", "h5": "keras", "mlir": "stablehlo", "jax": "stablehlo",
    "i8": "int8", "qint8": "int8", "cpu": "llvm", "gpu": "cuda", "llvm": "ll", "assembly": "asm",
    "aot": "compiled", "vm": "bytecode", "graph": "bytecode", "ga": "evolutionary", "gridsearch": "grid",
}  # fmt: skip
"""What values are called elsewhere, in small letters."""

ABSENT = {
    "bfloat16": "nothing is computed in bfloat16; float16 takes as many bits, and float16_acc32 adds up in float32",
    "float64": "nothing is computed in float64; float32 is the most accurate",
    "float8": "nothing is computed in 8-bit floats; int8 computes in 8-bit integers, int8_weights holds weights in them",
    "int4": "nothing is computed in 4 bits; int4_weights holds weights in them",
    "uint8": "int8 is 8-bit integers, whether they have a sign or not",
    "w8a8": "int8 has weights and activations in 8 bits",
    "w8a16": "int8_weights has weights in 8 bits, and activations: float16 below it computes in float16",
    "w4a16": "int4_weights has weights in 4 bits, and activations: float16 below it computes in float16",
    "mixed": "float16 keeps in float32 what needs it (never:); auto chooses for each layer by measuring",
}
"""Precisions that there are elsewhere, and what to take."""

ABSENT |= {
    other: ABSENT[name]
    for name, others in {
        "bfloat16": ("bf16", "bfloat", "brain_float16"),
        "float64": ("fp64", "f64", "double"), "float8": ("fp8", "f8", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"),
        "int4": ("i4", "uint4", "fp4", "nf4", "q4"), "uint8": ("u8", "quint8", "qdq"), "w8a8": ("static", "dynamic"),
        "w8a16": ("w8", "weight_only"), "w4a16": ("w4", "gptq", "awq"), "mixed": ("amp", "mixed_precision", "mixed_float16"),
    }.items() for other in others
}  # fmt: skip

OTHER_KEYS = {
    "min": ["at_least"], "minimum": ["at_least"], "max": ["at_most"], "maximum": ["at_most"], "tolerance": ["within"],
    "accuracy": ["top1"], "size_mb": ["package_mb"], "memory_mb": ["peak_memory_mb"], "psnr": ["sqnr_db"], "snr": ["sqnr_db"],
    "file": ["source", "path"], "model": ["source"], "weights": ["source"], "url": ["where", "host"],
    "directory": ["where", "path"], "dir": ["where", "path"], "path": ["where", "source"], "remote": ["where"],
    "max_gb": ["size_limit"], "max_size": ["size_limit"], "size": ["size_limit"],
    "tuner": ["strategy", "cost_model"], "n_trials": ["trials"], "num_trials": ["trials"], "march": ["mcpu"], "cpu": ["mcpu"],
    "triple": ["mtriple"], "features": ["mattr"],
    "runs": ["repeat"], "iterations": ["repeat"], "warm_up": ["warmup"], "std_dev": ["std"], "normalize": ["mean"], "normalise": ["mean"],
}  # fmt: skip
"""What keys are called elsewhere, in small letters, and what they may mean."""

INCLUDING = ("include", "includes", "import", "imports", "extends", "inherits", "configfile", "configfiles")
"""What a config is taken into another one with, elsewhere."""

ALL_WORDS = ("all", "*", "any", "everything")
"""For every choice there is."""
