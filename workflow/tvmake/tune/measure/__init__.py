"""Build and time candidate kernels in separate processes: locally, or on devices behind a TVM RPC tracker."""
