"""Docstrings name functions by roles, such as ``:func:``; the site shows the names alone."""

import re

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):\s*(<code)")


def on_page_content(html: str, **_: object) -> str:
    """Called by mkdocs with a page's HTML."""
    return _ROLE.sub(r"\1", html)
