"""The page's charts as inline SVG.

Widths are per cent of what there is and heights pixels, so that a chart fits a phone and a wide screen without its text growing or
shrinking. Colours are CSS classes; nothing has a style attribute, which the page's security policy forbids.
"""
