"""What stands between ``quantize`` and ``dequantize`` calls, computed in integers: products, sums, what moves values."""
