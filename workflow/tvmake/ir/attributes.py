"""Module attributes with which one stage passes facts about a network to later ones."""

TF32 = "tvmake.tf32"
"""Allows GPUs to multiply float32 in TF32."""

SIZE_CHECKS = "tvmake.size_checks"
"""Attribute of ``main``: the messages of its size checks, in which ``{0}`` and ``{1}`` are the two sizes."""

SIZE_CHECK_MARK = "|size check|"
"""Delimiter of such a message in the error of TVM's virtual machine; also defined in native/package/virtual_machine.cc."""

CPU_ONLY = "tvmake.cpu_only"
"""Of a function that only CPUs run, such as a kernel that comes scheduled for them: what it computes, for the message of targets that cannot run it."""

CPU_ONLY_REMEDY = "tvmake.cpu_only_remedy"
"""Of such a function: what helps other targets; optional."""
