"""Formulas as MathML, which browsers draw themselves.

MathJax and KaTeX would load scripts and fonts, from a network or from a copy of some megabytes;
pictures need an installation of LaTeX and do not follow the colours of the page. MathML is a part
of the page: it needs no script, reads offline, scales, and can be read out. Every current browser
draws it.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)

LETTERS = {"script": 0x1D49C, "bold": 0x1D400}  # where the capital letters of an alphabet begin
EXCEPTIONS = {"B": "ℬ", "E": "ℰ", "F": "ℱ", "H": "ℋ", "I": "ℐ", "L": "ℒ", "M": "ℳ", "R": "ℛ"}


def as_mathml(node: Any, display: str) -> str:
    """Convert a formula; what browsers would not draw is a warning, and fails the build."""
    source = node.astext()
    formula = re.sub(
        r'<mi mathvariant="(script|bold)">([A-Z])</mi>', _letter, convert(source, display=display)
    )
    if "mathvariant" in formula or "<mi>&</mi>" in formula or "<mi>\\" in formula:
        logger.warning("browsers cannot draw the MathML of %r", source, location=node)
    return formula


def _letter(match: re.Match[str]) -> str:
    """Take the letter of an alphabet that has its own characters, as MathML Core wants it."""
    alphabet, letter = match.groups()
    own = chr(LETTERS[alphabet] + ord(letter) - ord("A"))
    return f"<mi>{EXCEPTIONS.get(letter, own) if alphabet == 'script' else own}</mi>"


def write_inline(writer: Any, node: Any) -> None:
    """Write a formula within a line."""
    writer.body.append(as_mathml(node, "inline"))
    raise nodes.SkipNode


def write_block(writer: Any, node: Any) -> None:
    """Write a formula on a line of its own, which scrolls where the page is narrow."""
    writer.body.append(f'<div class="formula">{as_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
