"""Attributes of modules by which one stage tells a later one of a network."""

TF32 = "tvmake.tf32"
"""That float32 may be multiplied in TF32 by GPUs that do."""

SIZE_CHECKS = "tvmake.size_checks"
"""Of ``main``: what the checks report with which it begins, texts in which ``{0}`` and ``{1}`` are the two sizes."""

SIZE_CHECK_MARK = "|size check|"
"""What such a report begins and ends with in the error that TVM's virtual machine raises; native/package/virtual_machine.cc has it, too."""
