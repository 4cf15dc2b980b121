"""The documentation: pages are found, links exist, Python runs, pictures are current."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import tensormend as tm
from tensormend.recovery.registry import method_table

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
WITH_LINKS = [*PAGES, *sorted(ROOT.glob("*.md"))]
RUNNING = ("index", "start", "choosing", "extending")
BLOCKS = [
    pytest.param(source, id=f"{name}-{k}")
    for name in RUNNING
    for k, source in enumerate(
        re.findall(r"^```python\n(.*?)^```", (DOCS / f"{name}.md").read_text("utf-8"), re.S | re.M)
    )
]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def list_entries(page: Path) -> set[Path]:
    """Pages that the toctrees of a page name."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    lines = [line.strip() for tree in trees for line in tree.splitlines()]
    return {page.parent / f"{line}.md" for line in lines if line and not line.startswith(":")}


def test_every_page_is_in_a_toctree() -> None:
    listed = {entry for page in PAGES for entry in list_entries(page)}
    assert listed == set(PAGES) - {DOCS / "index.md"}


@pytest.mark.parametrize("page", WITH_LINKS, ids=name_of)
def test_relative_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", target):
            path = page.parent / target.partition("#")[0]
            assert path.exists(), f"{name_of(page)} links to {target}, which is not there"


@pytest.mark.filterwarnings("ignore::tensormend.errors.DataWarning")  # shown on purpose
@pytest.mark.parametrize("source", BLOCKS)
def test_python_in_the_docs_runs(source: str) -> None:
    names: dict[str, object] = {}
    exec(compile(source, "docs", "exec"), names)  # noqa: S102
    assert isinstance(names["result"], tm.Result | tm.Completion)


@pytest.mark.parametrize("name", ["layers.svg", "data-flow.svg"])
def test_pictures_of_the_layout_are_current(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    import draw_architecture

    drawn = draw_architecture.PICTURES[name]()
    kept = (DOCS / "images" / name).read_text("utf-8")
    assert kept == drawn, "the layout has changed; run python docs/draw_architecture.py"


def test_every_public_name_is_in_the_reference() -> None:
    reference = "".join(path.read_text("utf-8") for path in (DOCS / "api").glob("*.md"))
    for name in tm.__all__:
        words = rf"auto\w+:: (tensormend\.([a-z]+\.)?)?{name}\b"
        assert re.search(words, reference), f"{name} is missing in docs/api/"


def test_pictures_are_small() -> None:
    for path in (DOCS / "images" / "gallery").iterdir():
        assert path.stat().st_size < 150_000, f"{path.name} is too large for the repository"


def test_the_table_of_methods_is_that_of_the_registry() -> None:
    """`tensormend.recovery.registry.method_table` makes the table."""
    assert method_table() in (DOCS / "choosing.md").read_text("utf-8")
