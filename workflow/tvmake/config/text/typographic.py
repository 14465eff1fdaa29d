"""Typographic characters that web pages and word processors use instead of ASCII ones."""

QUOTATION_MARKS = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a\u2018\u2019\u201a\u201b"

DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"

SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"

INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff"

_TYPED = str.maketrans(
    {
        **dict.fromkeys(QUOTATION_MARKS, "'"),
        **dict.fromkeys(DASHES, "-"),
        **dict.fromkeys(SPACES, " "),
        **dict.fromkeys(INVISIBLE, ""),
        **{chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)},  # full-width letters
    }
)


def as_typed(text: str) -> str:
    """Replace typographic spaces, dashes and quotation marks by ASCII ones, and strip them at both ends."""
    typed = text.translate(_TYPED).strip()
    return typed.strip("'") if in_quotation_marks(text) else typed


def in_quotation_marks(text: str) -> bool:
    """Whether a text is in quotation marks that YAML and shells treat as letters."""
    inner = text.strip()
    return len(inner) > 1 and inner[0] in QUOTATION_MARKS and inner[-1] in QUOTATION_MARKS
