"""Print "N passed, N failed, N skipped" for a JUnit report: count_junit.py REPORT EXIT_STATUS.

The runner's exit status counts as well: an aborted run has at least one failure."""

import sys
import xml.etree.ElementTree as ElementTree


def counts(report):
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return 0, 1, 0
    suites = list(root.iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return total - failed - skipped, failed, skipped


def main():
    passed, failed, skipped = counts(sys.argv[1])
    if sys.argv[2] != "0" and failed == 0:
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
