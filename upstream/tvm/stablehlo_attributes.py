"""The importer for StableHLO drops strides, axes and dimension numbers."""

import inspect
import sys

from tvm.relax.frontend.stablehlo import stablehlo_translator


def still_needed() -> bool:
    source = inspect.getsource(stablehlo_translator)
    is_read = "dimension_numbers" in source and "window_strides" in source
    print(f"the importer reads window_strides and dimension_numbers: {is_read}")
    return not is_read


if __name__ == "__main__":
    sys.exit(still_needed())
