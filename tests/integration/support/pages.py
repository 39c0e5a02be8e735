"""Programs of the pages in docs/clients, each with what it prints."""

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
    """In their order; every program is followed by its output, and nothing else stands in blocks."""
    blocks = BLOCK.findall((FOLDER / f"{page}.md").read_text())
    assert blocks and len(blocks) % 2 == 0, page
    assert all(language == "output" for language, _ in blocks[1::2]), page
    return [
        Program(language, text, output)
        for (language, text), (_, output) in zip(blocks[::2], blocks[1::2], strict=True)
    ]
