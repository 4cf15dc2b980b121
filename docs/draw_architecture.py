"""Draw the layers of the package and the flow of the data for docs/architecture.md.

The layers come from ``tests/test_architecture.py``; the stations of the data are looked up in the
sources. A test compares the pictures with what this script draws now:

    python docs/draw_architecture.py
"""

from __future__ import annotations

import ast
import sys
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
SOURCES = DOCS.parent / "src" / "tensormend"
sys.path.insert(0, str(DOCS.parent / "tests"))

Point = tuple[float, float]

COLOURS = {
    "core": "foundation",
    "operators": "tensors",
    "data": "data",
    "recovery": "solving",
    "completion": "entry-points",
    "research": "methods",
}
"""Colours of the packages; one that is not here has the colour of tools."""

STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1b1f24; }
  .small { font-size: 12px; fill: #57606a; }
  .code { font: 12.5px ui-monospace, "SFMono-Regular", Menlo, monospace; }
  .mid { text-anchor: middle; }
  .card { fill: #ffffff; }
  .line { fill: none; stroke: #8c959f; stroke-width: 1.3; }
  .tip { fill: #8c959f; }
  rect.box { stroke-width: 1.2; }
  .foundation { fill: #eaeef2; stroke: #8c959f; } .data { fill: #d8f0e3; stroke: #2f9e69; }
  .tensors { fill: #fdf0d2; stroke: #c69026; } .solving { fill: #dcebfb; stroke: #2f77c2; }
  .methods { fill: #ece3fb; stroke: #8256d0; } .entry-points { fill: #fde0d8; stroke: #cf5a35; }
  .tools { fill: #f6f8fa; stroke: #afb8c1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9da7b3; } .card { fill: #161b22; }
    .line { stroke: #768390; } .tip { fill: #768390; }
    .foundation { fill: #2d333b; stroke: #768390; } .data { fill: #173a2b; stroke: #46b07d; }
    .tensors { fill: #3b3014; stroke: #d4a72c; } .solving { fill: #172f4a; stroke: #539bf5; }
    .methods { fill: #2d2347; stroke: #a47de8; } .entry-points { fill: #47251a; stroke: #ec775c; }
    .tools { fill: #22272e; stroke: #545d68; }
  }
"""


def frame(width: float, height: float, title: str, parts: list[str]) -> str:
    """Draw a picture on a background that is readable on light and dark pages."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
            f'<rect class="card" width="{width:g}" height="{height:g}" rx="10"/>',
            *parts,
            "</svg>\n",
        ]
    )


# the layers

BAND, PAD, HEIGHT, LABEL, WIDTH = 64.0, 14.0, 30.0, 128.0, 1010.0


def width_of(name: str) -> float:
    """Width of the box around a name."""
    return 8.0 * len(name) + 20


def draw_layers() -> str:
    """Draw the layers, the topmost first, each with the modules of its packages."""
    from test_architecture import LAYERS, ORDER

    parts: list[str] = []
    y = PAD
    for layer in reversed(LAYERS):
        for member in layer:
            modules = [name for names in ORDER.get(member, ()) for name in names.split()]
            modules = [name for name in modules if not name.startswith("__")]
            rows = wrap(modules)
            height = max(len(rows), 1) * (HEIGHT + 8) + 12
            kind = COLOURS.get(member, "tools")
            parts.append(
                f'<rect class="box {kind}" x="{PAD:g}" y="{y:g}" width="{WIDTH - 2 * PAD:g}" '
                f'height="{height:g}" rx="9"/>'
            )
            parts.append(f'<text x="{PAD + 14:g}" y="{y + height / 2 + 5:g}">{member}</text>')
            for k, row in enumerate(rows):
                x = PAD + LABEL
                for name in row:
                    width = width_of(name)
                    middle = y + 6 + (HEIGHT + 8) * (k + 0.5)
                    parts += box(x + width / 2, middle, width, HEIGHT, "card", name)
                    x += width + 8
            y += height + 4
        y += 8
    return frame(WIDTH, y + PAD - 8, "The layers of tensormend", parts)


def wrap(names: list[str]) -> list[list[str]]:
    """Break a list of boxes into rows."""
    rows: list[list[str]] = []
    used = WIDTH
    for name in names:
        if used + width_of(name) + 8 > WIDTH - 2 * PAD - LABEL:
            rows.append([])
            used = 0.0
        rows[-1].append(name)
        used += width_of(name) + 8
    return rows


def box(x: float, y: float, width: float, height: float, kind: str, *lines: str) -> list[str]:
    """Draw a box around its middle; the first line is a name, the others are code."""
    parts = [
        f'<rect class="box {kind}" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="7"/>'
    ]
    top = y - 9.0 * (len(lines) - 1)
    for k, line in enumerate(lines):
        look = "mid" if k == 0 else "mid small code"
        parts.append(
            f'<text class="{look}" x="{x:.0f}" y="{top + 18 * k + 5:.1f}">{escape(line)}</text>'
        )
    return parts


# the flow of the data: module, names in it, column and row; and what flows between

STATIONS = {
    "data.formats": (("load",), 1, 0),
    "data.observations": (("as_observations",), 2, 0),
    "completion.cost": (("check_cost",), 3, 0),
    "completion.validation": (("find_pattern", "draw_folds"), 3, 1),
    "completion.preprocessing": (("Preprocessing",), 2, 1),
    "completion.selection": (("choose_model", "Choice"), 1, 1),
    "operators": (("Sampling", "MatrixOperator"), 0, 2),
    "recovery.problem": (("Problem",), 1, 2),
    "recovery.loop": (("solve",), 2, 2),
    "recovery.solvers": (("Shrink", "RGN", "RCG"), 3, 2),
    "core.kernels": (("tucker_gradient", "mode_pass"), 3, 3),
    "recovery.result": (("Result", "History"), 2, 3),
    "completion.result": (("Completion",), 1, 3),
    "completion.trust": (("judge", "Trust"), 0, 3),
}
FLOWS = (
    ("data.formats", "data.observations", "data"),
    ("data.observations", "completion.cost", "entries"),
    ("completion.cost", "completion.validation", "it fits into memory"),
    ("completion.validation", "completion.preprocessing", "folds"),
    ("completion.preprocessing", "completion.selection", "values"),
    ("completion.selection", "recovery.problem", "every fold, then all entries"),
    ("operators", "recovery.problem", "A, y"),
    ("recovery.problem", "recovery.loop", "init"),
    ("recovery.loop", "recovery.solvers", "state"),
    ("recovery.solvers", "core.kernels", "passes over the entries"),
    ("recovery.loop", "recovery.result", "the loop ends"),
    ("recovery.result", "completion.result", "x"),
    ("completion.result", "completion.trust", "held out"),
)
OUTSIDE = {
    (0, 0): ("your data", "array, table, file"),
    (0, 1): ("your measurements", "recover(A, y, rank)"),
}
ENTRIES = (((0, 0), (1, 0)), ((0, 1), (0, 2)))
COLUMN, ROW, SIZE = 285.0, 112.0, (218.0, 56.0)


def check_stations() -> None:
    """Refuse to draw a station that is not in the sources any more."""
    for module, (names, _, _) in STATIONS.items():
        folder = SOURCES.joinpath(*module.split("."))
        files = sorted(folder.rglob("*.py*")) if folder.is_dir() else [folder.with_suffix(".py")]
        defined: set[str] = set()
        for path in files:
            if path.suffix in (".py", ".pyi"):
                for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                    if isinstance(node, ast.FunctionDef | ast.ClassDef):
                        defined.add(node.name)
        missing = set(names) - defined
        if missing:
            sys.exit(f"the picture shows {', '.join(missing)} in {module}, which is not there")


def draw_flow_of_data() -> str:
    """Draw the flow of data with missing entries from a file to a verdict."""
    check_stations()
    at = {name: (column, row) for name, (_, column, row) in STATIONS.items()}
    parts = []
    for a, b, words in FLOWS:
        parts += draw_flow(spot(*at[a]), spot(*at[b]), words)
    for start, end in ENTRIES:
        parts += draw_flow(spot(*start), spot(*end), "")
    for (column, row), lines in OUTSIDE.items():
        parts += box(*spot(column, row), *SIZE, "tools", *lines)
    for name, (names, column, row) in STATIONS.items():
        kind = COLOURS.get(name.partition(".")[0], "tools")
        parts += box(*spot(column, row), *SIZE, kind, name, ", ".join(names))
    width, height = spot(3, 3)
    return frame(width + 135, height + 54, "The flow of the data", parts)


def spot(column: int, row: int) -> Point:
    """Middle of a box in the grid."""
    return 135 + COLUMN * column, 54 + ROW * row


def draw_flow(start: Point, end: Point, words: str) -> list[str]:
    """Draw an arrow between two boxes, with what flows beside it."""
    (x0, y0), (x1, y1) = start, end
    if y0 == y1:
        way = 1 if x1 > x0 else -1
        x0, x1 = x0 + way * SIZE[0] / 2, x1 - way * (SIZE[0] / 2 + 2)
        look, x, y = "small mid", (x0 + x1) / 2, y0 - 8
    else:
        y0, y1 = y0 + SIZE[1] / 2, y1 - SIZE[1] / 2 - 2
        look, x, y = "small", x0 + 9, (y0 + y1) / 2 + 4
    line = f'<path class="line" marker-end="url(#tip)" d="M{x0:g} {y0:g}L{x1:g} {y1:g}"/>'
    text = f'<text class="{look}" x="{x:g}" y="{y:g}">{escape(words)}</text>'
    return [line, text] if words else [line]


PICTURES = {"layers.svg": draw_layers, "data-flow.svg": draw_flow_of_data}


def main() -> None:
    """Write both pictures."""
    for name, draw in PICTURES.items():
        (DOCS / "images" / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
