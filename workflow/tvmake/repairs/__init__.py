"""Defects of other projects that tvmake works around."""
