"""Check that a built site can be read offline: no page loads anything from a network.

python docs/check_site.py docs/_build/html
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOADS = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]+"')
HARMLESS = re.compile(r'rel="(?:canonical|me|license)"')


def main(folder: str) -> None:
    """Name every page that would load something, and fail if there is one."""
    bad = []
    pages = sorted(Path(folder).rglob("*.html"))
    for path in pages:
        found = LOADS.findall(path.read_text("utf-8"))
        bad += [f"{path}: {tag}" for tag in found if not HARMLESS.search(tag)]
    for path in sorted(Path(folder).rglob("*.css")):
        found = re.findall(
            r"@import[^;]+|url\(['\"]?(?:https?:)?//[^)]+\)", path.read_text("utf-8")
        )
        bad += [f"{path}: {what}" for what in found]
    if bad or not pages:
        sys.exit("\n".join(["the site must be readable offline, but it loads", *bad]))


if __name__ == "__main__":
    main(*sys.argv[1:])
