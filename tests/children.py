"""Python processes that tests start."""

WITHOUT_TORCH = "from tvmake.process.tvm_import import hide_torch_from_tvm; hide_torch_from_tvm()\n"
"""What the text of one that needs TVM alone begins with, as in tvmake's own: it takes TVM a third of the time to load."""
