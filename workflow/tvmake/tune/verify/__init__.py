"""Check candidates against the unscheduled kernel, and foreign records before they are used."""
