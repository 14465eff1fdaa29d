"""Convert convolutions to forms that layouts and schedules support."""
