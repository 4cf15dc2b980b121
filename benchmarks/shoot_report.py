"""Draw docs/images/report-light.png and report-dark.png: a report as Chromium shows it.

Run ``python benchmarks/shoot_report.py``. It takes Chromium and its driver, which Debian has as the
packages chromium and chromium-driver, and selenium from the extra dev.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensormend as tm

WIDTH, HEIGHT = 1100, 1164
IMAGES = Path(__file__).parents[1] / "docs" / "images"
CODE = """
import numpy as np
import tensormend as tm

cube = tm.datasets.load_indian_pines().cube
observed = np.random.default_rng(0).random(cube.shape) < 0.2
values = np.where(observed, cube, np.nan)
data = tm.TensorData(values, dims=("row", "column", "band"), name="Indian Pines")
result = tm.complete(data, rng=0)
"""


def find_browser() -> tuple[str, str] | None:
    """Return where Chromium and its driver are, or nothing if one of them is missing."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start Chromium without a window; its console and its requests are kept as logs."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    found = find_browser()
    if found is None:
        raise SystemExit("Chromium or its driver is missing; apt-get install chromium-driver")
    options = ChromeOptions()
    options.binary_location = found[0]
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(found[1]))
    try:
        yield driver
    finally:
        driver.quit()


def set_paper(driver: Any, width: int, height: int, *, scheme: str = "light") -> None:
    """Set the size of the page, and whether the machine prefers light or dark."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def main() -> None:
    """Complete an image cube, write its report and take both pictures."""
    names: dict[str, Any] = {}
    exec(CODE, names)  # noqa: S102 - the code that the report shows is the code that made it
    with tempfile.TemporaryDirectory() as folder, open_browser() as driver:
        page = Path(folder) / "report.html"
        tm.write_report(page, names["result"], source="load_indian_pines()", code=CODE)
        IMAGES.mkdir(exist_ok=True)
        for scheme in ("light", "dark"):
            set_paper(driver, WIDTH, HEIGHT, scheme=scheme)
            driver.get(page.as_uri())
            driver.save_screenshot(str(IMAGES / f"report-{scheme}.png"))
            print(IMAGES / f"report-{scheme}.png")


if __name__ == "__main__":
    main()
