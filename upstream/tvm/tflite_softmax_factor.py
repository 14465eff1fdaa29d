"""The importer for TFLite ignores the factor of a softmax and the type of a maximum's index."""

import inspect
import sys

from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter


def still_needed() -> bool:
    is_read = "Beta()" in inspect.getsource(OperatorConverter.convert_softmax)
    print(f"convert_softmax reads Beta(): {is_read}")
    return not is_read


if __name__ == "__main__":
    sys.exit(still_needed())
