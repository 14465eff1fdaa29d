"""HTML pages that need no network.

Everything but the style, the script and the charts goes through Jinja's autoescape: names of models, outputs and kernels come from
outside. A content security policy forbids the browser any fetch, and any style and script but the page's own.
"""

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup

from tvmake.report.page.script import SCRIPT
from tvmake.report.page.style import STYLE
from tvmake.report.page.template import FRAME, MACROS


@dataclass(frozen=True)
class Cell:
    """A cell of a table; numeric ones sort by ``value``, an absent value last.

    ``kind`` is a CSS class, ``mark`` the reason why the figure is uncertain.
    """

    text: str
    numeric: bool = False
    value: float | str = ""
    kind: str = ""
    link: str = ""
    mark: str = ""


def number(text: str, value: float | None, *, kind: str = "", mark: str = "", link: str = "") -> Cell:
    """A numeric cell."""
    return Cell(text, True, "" if value is None else value, kind, link, mark)


def render(template: str, **context: Any) -> str:
    """A page from a template that extends ``frame``."""
    loader = jinja2.DictLoader({"frame": FRAME, "macros": MACROS, "page": template})
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, loader=loader)
    return environment.get_template("page").render(
        **context,
        style=Markup(STYLE),
        style_digest=_digest(STYLE),
        script=Markup(SCRIPT),
        script_digest=_digest(SCRIPT),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
