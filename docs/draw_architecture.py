"""Draw the rooms of the house, and the way of the data through them, for docs/architecture.md.

The rooms come from ``tests/test_rooms.py`` and the arrows from the imports themselves, so that the
picture shows the house as it is; the stations of the data are looked up in the sources. A test
compares the pictures with what this script draws now:

    python docs/draw_architecture.py
"""

from __future__ import annotations

import ast
import sys
from html import escape
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).parent
SOURCES = DOCS.parent / "src" / "tensormend"
sys.path.insert(0, str(DOCS.parent / "tests"))

Point = tuple[float, float]

GROUPS = {
    "foundation": ("errors", "kernels", "algebra", "storage", "fibres"),
    "data": ("known", "io", "means", "preprocess", "trust", "holdout", "datasets", "simulate"),
    "tensors": ("tucker", "truncate", "shrinkage", "manifold"),
    "solving": (
        "operators",
        "problem",
        "initial",
        "steps",
        "result",
        "stopping",
        "contract",
        "checkpoint",
        "solve",
        "journal",
    ),
    "methods": ("solvers", "choose", "cost"),
    "doors": (
        "recover",
        "complete",
        "completion",
        "inspection",
        "report",
        "accessor",
        "estimator",
        "__init__",
    ),
}
"""Colours of the rooms; a room that is not here is one of the tools around the library."""

STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1b1f24; }
  .small { font-size: 12px; fill: #57606a; }
  .code { font: 12.5px ui-monospace, "SFMono-Regular", Menlo, monospace; }
  .mid { text-anchor: middle; }
  .card { fill: #ffffff; }
  .line { fill: none; stroke: #8c959f; stroke-width: 1.3; }
  .tip { fill: #8c959f; }
  rect.room { stroke-width: 1.2; }
  .foundation { fill: #eaeef2; stroke: #8c959f; } .data { fill: #d8f0e3; stroke: #2f9e69; }
  .tensors { fill: #fdf0d2; stroke: #c69026; } .solving { fill: #dcebfb; stroke: #2f77c2; }
  .methods { fill: #ece3fb; stroke: #8256d0; } .doors { fill: #fde0d8; stroke: #cf5a35; }
  .tools { fill: #f6f8fa; stroke: #afb8c1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9da7b3; } .card { fill: #161b22; }
    .line { stroke: #768390; } .tip { fill: #768390; }
    .foundation { fill: #2d333b; stroke: #768390; } .data { fill: #173a2b; stroke: #46b07d; }
    .tensors { fill: #3b3014; stroke: #d4a72c; } .solving { fill: #172f4a; stroke: #539bf5; }
    .methods { fill: #2d2347; stroke: #a47de8; } .doors { fill: #47251a; stroke: #ec775c; }
    .tools { fill: #22272e; stroke: #545d68; }
  }
"""


def frame(width: float, height: float, title: str, parts: list[str]) -> str:
    """Put a picture on a card of its own, which is readable on any page."""
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


# the rooms


def read_rooms() -> dict[str, set[str]]:
    """Return every room with the rooms that it imports, from the top of the house down."""
    from test_rooms import FILES, ROOMS, imported, room

    uses: dict[str, set[str]] = {name: set() for name in ROOMS}
    for path in FILES:
        uses[room(path)] |= imported(path) - {room(path)}
    return uses


def reduce_edges(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out an arrow where another way leads to the same room."""
    reach: dict[str, set[str]] = {}
    for name, used in uses.items():  # rooms come after those that they use
        reach[name] = used.union(*(reach[other] for other in used))
    return {
        name: {a for a in used if not any(a in reach[b] for b in used)}
        for name, used in uses.items()
    }


def find_levels(uses: dict[str, set[str]]) -> dict[str, int]:
    """Give every room a floor: below all that it uses, and close above those who use it."""
    level: dict[str, int] = {}
    for name, used in uses.items():
        level[name] = max((level[other] + 1 for other in used), default=0)
    for name in reversed(list(uses)):
        users = [level[other] for other, used in uses.items() if name in used]
        level[name] = min(users) - 1 if users else level[name]
    return level


def arrange(
    edges: dict[str, set[str]], level: dict[str, int]
) -> tuple[list[list[str]], set[tuple[str, str]]]:
    """Order the rooms of every floor so that few arrows cross; long arrows hold places between."""
    floors: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name, floor in level.items():
        floors[floor].append(name)
    links: set[tuple[str, str]] = set()
    for name in edges:
        for other in sorted(edges[name], key=list(edges).index):
            above = other
            for floor in range(level[other] + 1, level[name]):
                place = f"{other}>{name}@{floor}"
                floors[floor].append(place)
                links.add((above, place))
                above = place
            links.add((above, name))
    for sweep in range(24):
        down = sweep % 2 == 0
        for k in range(1, len(floors)) if down else range(len(floors) - 2, -1, -1):
            beside = floors[k - 1 if down else k + 1]
            rank = {name: i / len(beside) for i, name in enumerate(beside)}
            floors[k].sort(key=lambda name: centre(name, links, rank, down=down))
    return floors, links


def centre(name: str, links: set[tuple[str, str]], rank: dict[str, float], *, down: bool) -> float:
    """Mean place of the neighbours of a room on the next floor."""
    near = [rank[a if down else b] for a, b in links if (b if down else a) == name]
    return sum(near) / len(near) if near else 0.5


ROW, GAP, HEIGHT = 66.0, 18.0, 30.0


def width_of(name: str) -> float:
    """Width of a box, or of the room that an arrow passing by needs."""
    return 6.0 if ">" in name else 8.4 * len(name) + 24


def place(floors: list[list[str]], links: set[tuple[str, str]]) -> dict[str, Point]:
    """Find places for all, close to those of their neighbours and without overlap."""
    x: dict[str, float] = {}
    for names in floors:
        at = 0.0
        for name in names:
            x[name] = at + width_of(name) / 2
            at += width_of(name) + GAP
        for name in names:
            x[name] -= (at - GAP) / 2
    for _ in range(200):
        for names in floors:
            wanted = []
            for name in names:
                near = [x[b if a == name else a] for a, b in sorted(links) if name in (a, b)]
                wanted.append(0.5 * x[name] + 0.5 * sum(near) / len(near) if near else x[name])
            x.update(zip(names, spread(names, wanted), strict=True))
    left = min(x[name] - width_of(name) / 2 for name in x)
    return {
        name: (x[name] - left + 30, 40 + ROW * k)
        for k, names in enumerate(floors)
        for name in names
    }


def spread(names: list[str], wanted: list[float]) -> list[float]:
    """Move places apart as little as is needed for boxes not to touch: from both ends, halved."""
    gaps = [(width_of(a) + width_of(b)) / 2 + GAP for a, b in pairwise(names)]
    right, left = list(wanted), list(wanted)
    for k, gap in enumerate(gaps):
        right[k + 1] = max(right[k + 1], right[k] + gap)
    for k, gap in reversed(list(enumerate(gaps))):
        left[k] = min(left[k], left[k + 1] - gap)
    return [(a + b) / 2 for a, b in zip(right, left, strict=True)]


def draw_rooms() -> str:
    """Draw all rooms with the arrows that are needed to see who uses whom."""
    uses = read_rooms()
    edges, level = reduce_edges(uses), find_levels(uses)
    floors, links = arrange(edges, level)
    at = place(floors, links)
    parts = [draw_arrow(way) for way in find_ways(edges, level, at)]
    kinds = {name: kind for kind, names in GROUPS.items() for name in names}
    for name in uses:
        x, y = at[name]
        parts += box(x, y, width_of(name), HEIGHT, kinds.get(name, "tools"), name)
    width = max(x + width_of(name) / 2 for name, (x, _) in at.items()) + 30
    height = 40 + ROW * (len(floors) - 1) + 90
    parts += draw_legend(width, height - 42)
    return frame(width, height, "The rooms of tensormend and what they import", parts)


def find_ways(
    edges: dict[str, set[str]], level: dict[str, int], at: dict[str, Point]
) -> list[list[Point]]:
    """Return the points of every arrow, from a room up to one that it uses."""
    ways = []
    for name in edges:
        for other in sorted(edges[name]):
            between = [at[f"{other}>{name}@{k}"] for k in range(level[name] - 1, level[other], -1)]
            (x0, y0), (x1, y1) = at[name], at[other]
            ways.append([(x0, y0 - HEIGHT / 2), *between, (x1, y1 + HEIGHT / 2 + 2)])
    return ways


def draw_arrow(points: list[Point]) -> str:
    """Draw a smooth line through points, upright at both ends."""
    path = "M{:.0f} {:.0f}".format(*points[0])
    for k in range(len(points) - 1):
        (x0, y0), (x1, y1) = points[k], points[k + 1]
        third = (y1 - y0) / 3
        lean = [0.0, 0.0]
        for j, m in enumerate((k, k + 1)):
            if 0 < m < len(points) - 1:
                (xa, ya), (xb, yb) = points[m - 1], points[m + 1]
                lean[j] = 0.5 * (xb - xa) / (yb - ya)
        path += (
            f"C{x0 + lean[0] * third:.0f} {y0 + third:.0f} "
            f"{x1 - lean[1] * third:.0f} {y1 - third:.0f} {x1:.0f} {y1:.0f}"
        )
    return f'<path class="line" marker-end="url(#tip)" d="{path}"/>'


def draw_legend(width: float, y: float) -> list[str]:
    """Say what the colours mean."""
    names = [*GROUPS, "tools"]
    step = min(125.0, (width - 60) / len(names))
    x = (width - step * len(names)) / 2
    parts = []
    for k, name in enumerate(names):
        at = x + k * step
        parts.append(
            f'<rect class="room {name}" x="{at:.0f}" y="{y:.0f}" width="16" height="16" rx="4"/>'
        )
        parts.append(f'<text class="small" x="{at + 22:.0f}" y="{y + 12.5:.1f}">{name}</text>')
    return parts


def box(x: float, y: float, width: float, height: float, kind: str, *lines: str) -> list[str]:
    """Draw a box around its middle; the first line is a name, the others are code."""
    parts = [
        f'<rect class="room {kind}" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="7"/>'
    ]
    top = y - 9.0 * (len(lines) - 1)
    for k, line in enumerate(lines):
        look = "mid" if k == 0 else "mid small code"
        parts.append(
            f'<text class="{look}" x="{x:.0f}" y="{top + 18 * k + 5:.1f}">{escape(line)}</text>'
        )
    return parts


# the way of the data: room, names in it, column and row; and what flows between

STATIONS = {
    "io": (("load",), 1, 0),
    "known": (("read_known", "Known"), 2, 0),
    "cost": (("check_cost",), 3, 0),
    "holdout": (("find_pattern", "draw_folds"), 3, 1),
    "preprocess": (("Preprocessing",), 2, 1),
    "choose": (("choose_model", "Choice"), 1, 1),
    "operators": (("Sampling", "Matrix"), 0, 2),
    "problem": (("Problem",), 1, 2),
    "solve": (("solve",), 2, 2),
    "solvers": (("Shrink", "RGN", "RCG"), 3, 2),
    "kernels": (("tucker_pullback", "mode_pass"), 3, 3),
    "result": (("Result", "Trace"), 2, 3),
    "completion": (("Completion",), 1, 3),
    "trust": (("judge", "Trust"), 0, 3),
}
FLOWS = (
    ("io", "known", "data"),
    ("known", "cost", "entries"),
    ("cost", "holdout", "it fits into memory"),
    ("holdout", "preprocess", "folds"),
    ("preprocess", "choose", "values"),
    ("choose", "problem", "every fold, then all entries"),
    ("operators", "problem", "A, y"),
    ("problem", "solve", "start"),
    ("solve", "solvers", "state"),
    ("solvers", "kernels", "one pass an iteration"),
    ("solve", "result", "the loop ends"),
    ("result", "completion", "x"),
    ("completion", "trust", "held out"),
)
OUTSIDE = {
    (0, 0): ("your data", "array, table, file"),
    (0, 1): ("your measurements", "recover(A, y, rank)"),
}
ENTRIES = (((0, 0), (1, 0)), ((0, 1), (0, 2)))
COLUMN, FLOOR, SIZE = 285.0, 112.0, (218.0, 56.0)


def check_stations() -> None:
    """Refuse to draw a station that is not in the sources any more."""
    for room, (names, _, _) in STATIONS.items():
        folder = SOURCES / room
        files = sorted(folder.rglob("*.py*")) if folder.is_dir() else [SOURCES / f"{room}.py"]
        defined: set[str] = set()
        for path in files:
            if path.suffix in (".py", ".pyi"):
                for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                    if isinstance(node, ast.FunctionDef | ast.ClassDef):
                        defined.add(node.name)
        missing = set(names) - defined
        if missing:
            sys.exit(f"the picture shows {', '.join(missing)} in {room}, which is not there")


def draw_way() -> str:
    """Draw the way of data with holes through the rooms, from a file to a verdict."""
    check_stations()
    kinds = {name: kind for kind, names in GROUPS.items() for name in names}
    at = {name: (column, floor) for name, (_, column, floor) in STATIONS.items()}
    parts = []
    for a, b, words in FLOWS:
        parts += draw_flow(spot(*at[a]), spot(*at[b]), words)
    for start, end in ENTRIES:
        parts += draw_flow(spot(*start), spot(*end), "")
    for (column, floor), lines in OUTSIDE.items():
        parts += box(*spot(column, floor), *SIZE, "tools", *lines)
    for name, (names, column, floor) in STATIONS.items():
        parts += box(*spot(column, floor), *SIZE, kinds.get(name, "tools"), name, ", ".join(names))
    width, height = spot(3, 3)
    return frame(width + 135, height + 54, "The way of the data through the rooms", parts)


def spot(column: int, floor: int) -> Point:
    """Middle of a box in the grid."""
    return 135 + COLUMN * column, 54 + FLOOR * floor


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


PICTURES = {"rooms.svg": draw_rooms, "data-way.svg": draw_way}


def main() -> None:
    """Write both pictures."""
    for name, draw in PICTURES.items():
        (DOCS / "images" / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
