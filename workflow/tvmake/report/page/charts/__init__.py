"""The page's charts as inline SVG.

Widths are percentages and heights pixels, so that a chart fits a phone and a wide screen with constant text size. Colours are
CSS classes; nothing has a style attribute, which the page's security policy forbids.
"""
