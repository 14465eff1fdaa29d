"""Numbers as networks mean them, where TVM computes others: on all targets, or those of several kinds."""
