"""What looks at pictures and volumes by windows and places: pooling, resizing, sampling."""
