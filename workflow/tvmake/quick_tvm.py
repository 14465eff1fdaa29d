"""Import TVM without paying for torch.

tvm_ffi imports torch whenever it can be found, to register its dtypes; that doubles the import (1.2 s to
2.9 s of CPU) and adds 200 MB. Modules write ``from tvmake.quick_tvm import tvm``. Torch can still be imported
afterwards. A module that needs torch and TVM together (the PyTorch frontend) imports torch first.
"""

import sys

if "tvm" in sys.modules or "torch" in sys.modules:
    import tvm
else:
    sys.modules["torch"] = None  # type: ignore[assignment]  # makes `import torch` raise ImportError
    try:
        import tvm
    finally:
        del sys.modules["torch"]

__all__ = ["tvm"]
