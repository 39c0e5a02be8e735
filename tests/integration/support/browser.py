"""A real Chromium, through chromium-driver."""

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


def found():
    """Whether this machine has Chromium; some distributions lack it."""
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


def open_browser(width=1100, height=900):
    options = Options()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "--headless=new",
        "--no-sandbox",  # root cannot use the sandbox
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        f"--window-size={width},{height}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    browser.set_script_timeout(60)
    return browser


def emulate(browser, width=1100, height=900, mobile=False, **features):
    """Set the size of the window and the values of media queries, such as
    prefers_color_scheme="dark"."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile},
    )
    media = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
