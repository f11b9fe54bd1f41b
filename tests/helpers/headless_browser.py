"""A browser without a window, for tests of pages; a test module that imports it is skipped where there is none."""

import contextlib
import os
import pathlib
import shutil

import pytest

pytest.importorskip("selenium", reason="no selenium to drive a browser with: pip install '.[dev]'")
from selenium import webdriver  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not BROWSER or not DRIVER:
    pytest.skip("no Chromium: apt-get install chromium chromium-driver fonts-liberation", allow_module_level=True)
ROOT = pathlib.Path(__file__).parents[2]
AXE = pathlib.Path(os.environ.get("NODE_PATH", ROOT / "node_modules")) / "axe-core" / "axe.min.js"


@contextlib.contextmanager
def headless_browser():
    """A selenium WebDriver of Chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def show(browser, width, scheme="light"):
    """Sets the width of the window in pixels, and whether the user prefers "light" or "dark"."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": feature})


def serious_violations(browser):
    """What axe-core finds on the page that is serious or critical."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    run = "const done = arguments[0]; axe.run().then((found) => done(found.violations))"
    violations = browser.execute_async_script(run)
    found = [
        (violation["id"], violation["impact"], [node["html"] for node in violation["nodes"]][:3])
        for violation in violations
    ]
    return [violation for violation in found if violation[1] in ("serious", "critical")]
