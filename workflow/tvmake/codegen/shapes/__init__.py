"""One network at several sizes of its dynamic dimensions: functions over the same weights."""
