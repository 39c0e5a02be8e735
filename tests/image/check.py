"""Check a running Tally from outside, or an image's list of files, with Python alone:
check.py URL ready STARTED | URL examples | LIST hashes ROOT."""

import hashlib
import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

SLIVERS = [[[[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]]]
LINE = [1, 2, 3, 4, 5]
# The examples of the DirectML and OpenVINO pages.
EXAMPLES = [
    (SLIVERS, {"axis": 3}, [[[[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]]]),
    (SLIVERS, {"axis": 3, "exclusive": True}, [[[[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]]]),
    (SLIVERS, {"axis": 3, "reverse": True}, [[[[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]]]),
    (SLIVERS, {"axis": 2}, [[[[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]]]),
    (LINE, {}, [1, 3, 6, 10, 15]),
    (LINE, {"exclusive": True}, [0, 1, 3, 6, 10]),
    (LINE, {"reverse": True}, [15, 14, 12, 9, 5]),
    (LINE, {"exclusive": True, "reverse": True}, [14, 12, 9, 5, 0]),
]


def post(url, document):
    request = urllib.request.Request(
        url, json.dumps(document).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def wait_ready(url, started, seconds=180):
    """Poll the service until it is ready; `started` is the time of day at which it was
    started."""
    while time.time() - started < seconds:
        try:
            with urllib.request.urlopen(url + "/readyz", timeout=5):
                print(f"      ready after {time.time() - started:.2f} s")
                return 0
        except (urllib.error.URLError, OSError):
            time.sleep(0.01)
    print(f"not ready after {seconds} s")
    return 1


def examples(url):
    wrong = 0
    for data, attributes, expected in EXAMPLES:
        document = {"dtype": "float32", "data": data, **attributes}
        answer = post(url + "/v1/cumsum", document)
        if answer["data"] != expected or answer["dtype"] != "float32":
            print(f"{document} gave {answer}")
            wrong += 1
    return wrong


def hashes(path, root):
    """Files of the image that differ from the list, or are in usr/ but not in the list."""
    root = pathlib.Path(root)
    wrong = set()
    listed = {}
    for entry in json.loads(pathlib.Path(path).read_text())["files"]:
        sums = {each["algorithm"]: each["checksumValue"] for each in entry["checksums"]}
        listed[root / entry["fileName"]] = sums["SHA256"]
    for file in (root / "usr").rglob("*"):
        if file.is_file() and not file.is_symlink() and file.name != "sbom.spdx.json":
            wrong |= {file} - listed.keys()
    for file, digest in listed.items():
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            wrong.add(file)
    print("\n".join(sorted(map(str, wrong))) or f"      {len(listed)} files")
    return wrong


if __name__ == "__main__":
    if sys.argv[2] == "hashes":
        sys.exit(bool(hashes(sys.argv[1], sys.argv[3])))
    if sys.argv[2] == "ready":
        sys.exit(wait_ready(sys.argv[1], float(sys.argv[3])))
    sys.exit(examples(sys.argv[1]))
