"""Make fuzz inputs of the golden requests: tests/fuzz/corpus/<format>/golden-<case>.

python3 tests/fuzz/seed.py"""

import pathlib

TESTS = pathlib.Path(__file__).parent.parent
ANSWERS = {"application/json": b"0", "application/octet-stream": b"1", "application/x-npy": b"2"}

for request in sorted((TESTS / "golden").glob("*/*/request")):
    head, body = request.read_bytes().split(b"\n\n", 1)
    line, *headers = head.decode().split("\n")
    accept = next(h.split(": ")[1] for h in headers if h.startswith("Accept"))
    form, case = request.parts[-3:-1]
    query = b"" if form == "json" else line.partition("?")[2].encode() + b"\n"
    target = TESTS / "fuzz" / "corpus" / form / f"golden-{case}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(ANSWERS[accept] + query + body)
