"""Takes the screenshot in the guide to the page of `encdec-serve`, from a running server, with Chromium.

    encdec-serve
    python docs/pictures/make_page_picture.py http://127.0.0.1:8080 "open the file" "ouvrez le fichier"

The picture in the repository is of the model that comes with the package. Needs the extra `dev` and Chromium.
"""

import io
import pathlib
import shutil
import sys
import time

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

WIDTH = 1100
READY = "return !document.querySelector('[aria-busy=true]') && document.querySelector('#gates canvas') !== null"


def main(address: str, source: str, target: str) -> None:
    """Types a pair and saves a screenshot."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        show(browser, 900)
        browser.get(address)
        wait = WebDriverWait(browser, 60)
        wait.until(lambda _: browser.execute_script(READY))
        for name, text in (("target", target), ("source", source)):
            field = browser.find_element(By.ID, name)
            field.clear()
            field.send_keys(text)
        browser.execute_script("document.activeElement.blur()")
        time.sleep(1)  # the page asks a moment after the last key
        wait.until(lambda _: browser.execute_script(READY))
        show(browser, browser.execute_script("return document.documentElement.scrollHeight"))
        picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB").quantize(256)
        picture.save(pathlib.Path(__file__).parent / "trying.png", optimize=True)
    finally:
        browser.quit()


def show(browser: webdriver.Chrome, height: int) -> None:
    """Sets the size of the window in pixels."""
    metrics = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


if __name__ == "__main__":
    main(*sys.argv[1:])
