"""One browser for a module's tests; skipped, with the name of what is missing, where there is none."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright (pip install playwright)")
    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("needs a browser: the system package chromium (apt-get install chromium)")
    with playwright.sync_playwright() as driver:  # each launch has a profile folder of its own
        browser = driver.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        yield browser
        browser.close()
