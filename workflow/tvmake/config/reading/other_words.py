"""What users of other programs call the keys and values of a config."""

OTHER_NAMES = {
    "fp32": "float32", "f32": "float32", "float": "float32", "single": "float32",
    "fp16": "float16", "f16": "float16", "half": "float16",
    "pytorch": "pt2", "torch": "pt2", "tensorflow": "tflite", "h5": "keras", "mlir": "stablehlo", "jax": "stablehlo",
    "i8": "int8", "qint8": "int8", "cpu": "llvm", "gpu": "cuda", "llvm": "ll", "assembly": "asm",
    "aot": "compiled", "vm": "bytecode", "graph": "bytecode", "ga": "evolutionary", "gridsearch": "grid",
}  # fmt: skip
"""What values are called elsewhere, in small letters."""

OTHER_KEYS = {
    "min": ["at_least"], "minimum": ["at_least"], "max": ["at_most"], "maximum": ["at_most"], "tolerance": ["within"],
    "accuracy": ["top1"], "size_mb": ["package_mb"], "memory_mb": ["peak_memory_mb"], "psnr": ["sqnr_db"], "snr": ["sqnr_db"],
    "file": ["source", "path"], "model": ["source"], "weights": ["source"], "url": ["where", "host"],
    "directory": ["where", "path"], "dir": ["where", "path"], "path": ["where", "source"], "remote": ["where"],
    "max_gb": ["size_limit"], "max_size": ["size_limit"], "size": ["size_limit"],
    "n_trials": ["trials"], "num_trials": ["trials"], "march": ["mcpu"], "cpu": ["mcpu"],
    "triple": ["mtriple"], "features": ["mattr"],
    "runs": ["repeat"], "iterations": ["repeat"], "warm_up": ["warmup"], "std_dev": ["std"],
}  # fmt: skip
"""What keys are called elsewhere, in small letters, and what they may mean."""

INCLUDING = ("include", "includes", "import", "imports", "extends", "inherits", "configfile", "configfiles")
"""What a config is taken into another one with, elsewhere."""

ALL_WORDS = ("all", "*", "any", "everything")
"""For every choice there is."""
