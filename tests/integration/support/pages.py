"""The programs of the pages in docs/clients, each with its expected output."""

import re
from typing import NamedTuple

from .tallyd import TOP

FOLDER = TOP / "docs" / "clients"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


class Program(NamedTuple):
    language: str
    text: str
    output: str


def programs_of(page):
    """The programs in order. Every program is followed by its output, and the page has no other
    code blocks."""
    blocks = BLOCK.findall((FOLDER / f"{page}.md").read_text())
    assert blocks and len(blocks) % 2 == 0, page
    assert all(language == "output" for language, _ in blocks[1::2]), page
    return [
        Program(language, text, output)
        for (language, text), (_, output) in zip(blocks[::2], blocks[1::2], strict=True)
    ]
