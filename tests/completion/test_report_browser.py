"""The report in a real browser: no error, no request, sliders that move, dark colours, a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensormend as tm
from shoot_report import find_browser, open_browser, set_paper

pytestmark = [
    pytest.mark.checkout,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium with its driver here"),
]

PIXELS = "return document.getElementById(arguments[0]).toDataURL()"
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with open_browser() as found:
        yield found


def make_video() -> tm.Completion:
    rng = np.random.default_rng(0)
    truth = tm.simulate.random_tucker((12, 14, 18, 3), 2, rng=0).todense()
    data = tm.TensorData(
        np.where(rng.random(truth.shape) < 0.5, truth, np.nan),
        dims=("frame", "y", "x", "channel"),
        coords=(np.datetime64("2020-01-01") + np.arange(12), None, None, np.array(list("rgb"))),
        name="a </script> video with a long name " * 3,
    )
    return tm.complete(data, rank=2, validation_fraction=0.1, rng=0)


def make_plane() -> tm.Completion:
    return tm.complete(tm.simulate.random_tucker((30, 20), 2, rng=0).todense(), rank=2, rng=0)


def make_volume() -> tm.Completion:
    truth = tm.simulate.random_tucker((9, 15, 12, 5, 4), 1, rng=0).todense()
    observed = np.random.default_rng(0).random(truth.shape) < 0.5
    return tm.complete(np.where(observed, truth, np.nan), rng=0)


PAGES = {"video": make_video, "plane": make_plane, "volume": make_volume}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, make in PAGES.items():
        tm.write_report(paths[name], make(), source=f"{name}.npy", code="x = 1\n" + "y" * 300)
    return paths


# The curve is drawn again once its size is known, after the page counts as loaded.
SETTLE = """
const done = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => done()));
"""


def open_page(driver: Any, path: Path, width: int = 1100, scheme: str = "light") -> None:
    set_paper(driver, width, 800, scheme=scheme)
    for kind in ("browser", "performance"):
        driver.get_log(kind)  # what was before
    driver.get(path.as_uri())
    driver.execute_async_script(SETTLE)


def requests(driver: Any) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [one for one in messages if one["method"] == "Network.requestWillBeSent"]
    return [one["params"]["request"]["url"] for one in sent]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [375, 1100])
def test_opens_quietly_and_fits(driver: Any, pages: dict[str, Path], name: str, width: int) -> None:
    open_page(driver, pages[name], width)
    assert driver.get_log("browser") == []
    urls = [url for url in requests(driver) if not url.startswith("data:")]
    assert urls == [pages[name].as_uri()]
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script("return document.querySelectorAll('#curve path').length") > 0


@pytest.mark.parametrize("name", ["video", "volume"])
def test_sliders_change_the_pictures(driver: Any, pages: dict[str, Path], name: str) -> None:
    open_page(driver, pages[name])
    before, after = (driver.execute_script(PIXELS, which) for which in ("before", "after"))
    assert before != after
    slider = driver.find_element("css selector", "#slices input[type=range]")
    label = slider.get_attribute("aria-valuetext")
    slider.send_keys("\ue014")  # the right arrow
    assert slider.get_attribute("aria-valuetext") != label
    assert driver.execute_script(PIXELS, "before") != before
    assert driver.execute_script(PIXELS, "after") != after
    curve = "return document.getElementById('curve').innerHTML"
    line = driver.execute_script(curve)
    driver.find_element("css selector", "#curves input[type=range]").send_keys("\ue012")
    assert driver.execute_script(curve) != line
    assert driver.get_log("browser") == []


def test_a_click_chooses_the_curve(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["video"])
    sliders = driver.find_elements("css selector", "#curves input[type=range]")
    positions = [slider.get_property("value") for slider in sliders]
    driver.execute_script(
        "const canvas = document.getElementById('after'), box = canvas.getBoundingClientRect();"
        "const place = {clientX: box.left + 2, clientY: box.top + 2};"
        "canvas.dispatchEvent(new MouseEvent('click', place))"
    )
    assert positions[:2] != ["0", "0"]
    assert [slider.get_property("value") for slider in sliders][:2] == ["0", "0"]


def test_colours_follow_the_machine_and_the_button(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["video"])
    driver.execute_script("localStorage.clear()")
    light = driver.execute_script(BACKGROUND)
    open_page(driver, pages["video"], scheme="dark")
    dark = driver.execute_script(BACKGROUND)
    assert brightness(dark) < 60 < 200 < brightness(light)
    open_page(driver, pages["video"])
    driver.find_element("id", "theme").click()
    assert driver.execute_script(BACKGROUND) == dark
    driver.refresh()
    assert driver.execute_script(BACKGROUND) == dark  # the choice is remembered
    driver.find_element("id", "theme").click()
    assert driver.execute_script(BACKGROUND) == light
    driver.execute_script("localStorage.clear()")


def brightness(colour: str) -> float:
    return float(np.mean([int(part) for part in colour.strip("rgb()").split(",")]))


def test_a_script_from_elsewhere_does_not_run(driver: Any, pages: dict[str, Path]) -> None:
    open_page(driver, pages["plane"])
    driver.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.wasRun = 1'; document.body.append(script);"
    )
    assert driver.execute_script("return window.wasRun === undefined")


STYLE = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_have_names_and_texts_have_contrast(
    driver: Any, pages: dict[str, Path], scheme: str
) -> None:
    open_page(driver, pages["video"], scheme=scheme)
    controls = driver.find_elements("css selector", "input, button, canvas[role], svg[role]")
    assert all(control.accessible_name for control in controls)
    papers = (".verdict", "body")
    below = {one: driver.execute_script(STYLE, one, "backgroundColor") for one in papers}
    texts = {".summary": "body", "h1": "body", "figcaption": ".verdict", ".says h2": ".verdict"}
    for text, paper in texts.items():
        ink = driver.execute_script(STYLE, text, "color")
        assert contrast(ink, below[paper]) >= 4.5, text


def contrast(one: str, other: str) -> float:
    lights = []
    for colour in (one, other):
        parts = np.array([int(part) / 255 for part in colour.strip("rgb()").split(",")])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        lights.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(lights) + 0.05) / (min(lights) + 0.05)
