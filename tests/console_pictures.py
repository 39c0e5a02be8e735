#!/usr/bin/env python3
"""Take the pictures of the console for the documents: docs/plots/console-*.png (make console-pictures)."""

import pathlib
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests/integration"))

from selenium.webdriver.common.by import By  # noqa: E402

from support import browser as chromium  # noqa: E402
from support.tallyd import Tallyd  # noqa: E402
from support.waiting import until  # noqa: E402


def picture(driver, name):
    """Save a picture after all animations have finished."""
    still = "return document.getAnimations().every(a => a.playState === 'finished')"
    until(lambda: driver.execute_script(still))
    path = TOP / f"docs/plots/console-{name}.png"
    driver.save_screenshot(str(path))
    assert path.stat().st_size < 150_000, f"{path} is large"


def tensor(driver, server):
    chromium.emulate(driver, width=1000, height=900, prefers_color_scheme="light")
    driver.get(f"http://127.0.0.1:{server.port}/?light")
    until(lambda: driver.find_element(By.ID, "version").text)
    driver.find_element(By.ID, "send").click()
    until(lambda: driver.find_element(By.ID, "tally-plot").is_displayed())
    picture(driver, "tensor")


def phone(driver, server):
    chromium.emulate(driver, width=390, height=780, mobile=True, prefers_color_scheme="dark")
    driver.get(f"http://127.0.0.1:{server.port}/?dark")
    driver.find_element(By.CSS_SELECTOR, "#openvino-examples button").click()
    plot = until(lambda: driver.find_element(By.ID, "tally-plot"))
    until(plot.is_displayed)
    driver.execute_script("document.querySelector('#result h2').scrollIntoView()")
    picture(driver, "phone")


def service(driver, server):
    """Send requests of several sizes, and refused ones, while the view is open."""
    chromium.emulate(driver, width=1000, height=770, prefers_color_scheme="light")
    driver.get(f"http://127.0.0.1:{server.port}/?service#service")
    client = server.client()
    samples = "return samples.length"
    while driver.execute_script(samples) < 20:
        for _ in range(10 + 10 * (driver.execute_script(samples) % 7)):
            client.post_json("/v1/cumsum", {"data": [[1, 2, 3]] * 40, "axis": 1})
        client.post_json("/v1/cumsum", {"data": [1, 2], "axis": 7})
        client.post_json("/v1/cumsum", {"data": [1, 2], "dtype": "int9"})
    picture(driver, "service")


def main():
    with tempfile.TemporaryDirectory() as directory:
        server = Tallyd(pathlib.Path(directory) / "log")
        driver = chromium.open_browser()
        try:
            for take in (tensor, phone, service):
                take(driver, server)
        finally:
            driver.quit()
            server.stop()


if __name__ == "__main__":
    main()
