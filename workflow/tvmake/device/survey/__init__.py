"""What is known of devices, and whether they work: for people, not for stages."""
