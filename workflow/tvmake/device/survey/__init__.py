"""Reports on devices for people, not for stages: what is known of them, and whether they work."""
