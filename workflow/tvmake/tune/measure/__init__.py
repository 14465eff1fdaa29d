"""Building and timing candidate kernels, each in processes of its own: here, or on devices behind a TVM RPC tracker."""
