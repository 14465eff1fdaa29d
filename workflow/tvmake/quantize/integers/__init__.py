"""Integer arithmetic for networks with ``quantize`` and ``dequantize`` calls: matmuls, convolutions, sums and data movement."""
