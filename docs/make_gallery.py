"""Run every example at its full size; write docs/gallery.md and its pictures from what they say.

It takes a few minutes, the packages of the realdata extra, and the folder of the traffic data in
the environment variable TENSORMEND_DATA:

    python docs/make_gallery.py
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
PICTURES = DOCS / "images" / "gallery"

INTRO = """# Gallery

Real data of which a part is hidden, completed by `tm.complete` and by a simple baseline. Each
example is a script of about a page in `examples/`, which prints the errors on the hidden entries
and draws the picture; `--small` runs it on a part of the data in seconds. Interpolation is along a
mode in which it is accurate. Data that are files of packages need
`pip install "tensormend[realdata]"`; an example whose data are missing says what to install.
`make gallery` writes this page, its numbers and its pictures. [Real data](real-data.md) has more
patterns of lost entries, and other methods.
"""


def run(path: Path) -> str:
    """Run an example and return what it prints."""
    command = [sys.executable, str(path), "--out", str(PICTURES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def describe(path: Path, printed: str) -> str:
    """Write the section of an example, from its docstring and from what it printed."""
    title, _, rest = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n\n")
    words, _, data = rest.partition("\n\nData: ")
    scores = re.search(
        r"(^.*scored)\n *RMSE\n(.*?)^model +(.*?)\nverdict +(.*?)$", printed, re.S | re.M
    )
    if scores is None:
        sys.exit(f"{path.name} printed no scores")
    what, table, model, verdict = scores.groups()
    rows = re.findall(r"^(.+?)  +(\S+)$", table, re.M)
    picture = f"images/gallery/{path.stem.replace('_', '-')}.png"
    return "\n".join(
        [
            f"## {title.removesuffix('.')}",
            "",
            words,
            "",
            f"![{title}]({picture})",
            "",
            f"{what.splitlines()[-1]}:",
            "",
            "| | RMSE |",
            "|---|---|",
            *(f"| {name} | {error} |" for name, error in rows),
            "",
            f"Verdict: {verdict.removesuffix('.')}. Model: {model}.",
            "",
            f"Data: {data.partition('    python')[0].strip()}",
            "",
            f"Script: [{path.name}](../examples/{path.name})",
            "",
        ]
    )


def main() -> None:
    """Run all examples and write the page."""
    paths = [path for path in sorted(EXAMPLES.glob("*.py")) if path.stem != "helpers"]
    sections = [describe(path, run(path)) for path in paths]
    (DOCS / "gallery.md").write_text("\n".join([INTRO, *sections]), encoding="utf-8")


if __name__ == "__main__":
    main()
