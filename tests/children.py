"""Python processes that tests start."""

WITHOUT_TORCH = "from tvmake.process.tvm_import import hide_torch_from_tvm; hide_torch_from_tvm()\n"
"""Beginning of programs that need TVM only, without torch, as in tvmake: TVM then loads in a third of the time."""
