"""Commands about this machine and this TVM."""
