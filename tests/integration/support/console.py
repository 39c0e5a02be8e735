"""The console in a real Chromium, and the programs that the console shows."""

import json
import re
import subprocess

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support import browser as chromium
from support.tallyd import MODE, TOP
from support.waiting import until

BIN = TOP / ("build/bin" if MODE == "release" else f"build/{MODE}/bin")


class Page:
    """The console in the browser of this module."""

    def __init__(self, driver):
        self.driver = driver
        self.base = None
        self.loads = 0

    def open(self, port, view="tensor", path="/"):
        self.base = f"http://127.0.0.1:{port}{path}"
        self.loads += 1  # the browser does not reload a page when only the fragment differs
        # Without a GPU, animations take much processor time.
        still = {"prefers_reduced_motion": "reduce", "prefers_color_scheme": "light"}
        chromium.emulate(self.driver, **still)
        self.driver.get(f"{self.base}?{self.loads}#{view}")
        return self

    def __getitem__(self, name):
        return self.driver.find_element(By.ID, name)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def set(self, **fields):
        """Set the fields in this order, with one event each, in a single step: typing every key is
        slow."""
        self.js(
            """
            for (const [name, value] of arguments[0]) {
                const element = document.getElementById(name);
                const property = typeof value === "boolean" ? "checked" : "value";
                element[property] = value;
                if (element[property] !== value) throw new Error(`${name} takes no ${value}`);
                element.dispatchEvent(new Event("input", { bubbles: true }));
            }""",
            list(fields.items()),
        )

    def answered(self):
        """The text of the answer, once it has arrived."""
        return until(lambda: self["answer"].get_attribute("textContent"), 60)

    def sums(self):
        return json.loads(self.answered())["data"]

    def forget(self):
        """Clear the last answer, so that it cannot be mistaken for the next one."""
        self.js("document.getElementById('answer').textContent = ''")

    def send(self):
        self.forget()
        self["send"].click()

    def example(self, dialect, number):
        self.forget()
        self.all(f"#{dialect}-examples button")[number].click()
        return self.answered()

    def titles(self, figure, marks):
        """The points of a plot, as (position, number)."""
        texts = self.js(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)",
            f"#{figure}-plot {marks} title",
        )
        return [(text[1:].split("] ")[0], float(text.split("] ")[1])) for text in texts]

    def attributes(self, figure, marks, name):
        values = self.js(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute(arguments[1]))",
            f"#{figure}-plot {marks}",
            name,
        )
        return np.array([float(value) for value in values])

    def copied(self):
        """The text that the button copies to the clipboard, pasted with keys."""
        self["copy"].click()
        until(lambda: self["copied"].text)
        self["data"].send_keys(Keys.CONTROL, "a")
        self["data"].send_keys(Keys.CONTROL, "v")
        return self["data"].get_attribute("value")


def luminance(colour):
    parts = np.array([float(n) for n in re.findall(r"[\d.]+", colour)[:3]]) / 255
    parts = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(parts @ [0.2126, 0.7152, 0.0722])


def contrast(page, element):
    """The contrast between an element's text and its background."""
    text, ground = page.js(
        """
        let behind = arguments[0];
        const colour = (e) => getComputedStyle(e).backgroundColor;
        while (colour(behind) === "rgba(0, 0, 0, 0)") behind = behind.parentNode;
        return [getComputedStyle(arguments[0]).color, colour(behind)];""",
        element,
    )
    darker, lighter = sorted((luminance(text) + 0.05, luminance(ground) + 0.05))
    return lighter / darker


@pytest.fixture(scope="module")
def driver():
    if not chromium.found():
        pytest.skip("this distribution has no chromium and chromedriver")
    driver = chromium.open_browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(driver):
    return Page(driver)


@pytest.fixture
def page(pages, server):
    pages.open(server.port)
    pages.driver.get_log("browser")  # discards messages of earlier tests
    return pages


def run_code(language, code, directory):
    """Run the copied code and return its output."""
    name, suffix = {
        "curl": ("bash", "sh"),
        "Python": ("python3", "py"),
        "JavaScript": ("node", "mjs"),
    }[language]
    (directory / f"code.{suffix}").write_text(code)
    command = [name, str(directory / f"code.{suffix}")]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=directory).stdout
