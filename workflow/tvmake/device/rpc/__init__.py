"""Devices behind a TVM RPC tracker."""
