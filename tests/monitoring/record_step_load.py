"""Record the metrics of a tallyd under a step of load, for the replay in test_monitoring.py:

    build/venv/bin/python tests/monitoring/record_step_load.py >tests/monitoring/step_load.json

One paced client, then CROWD clients that send as fast as they are served, then the single client
again. Takes a minute.
"""

import http.client
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))

from support.tallyd import BINARY, free_port  # noqa: E402

PHASES_S = (15, 30, 15)
CROWD = 300
ROWS = 4 << 20
PATH = f"/v1/cumsum?dtype=float32&shape={ROWS},3&axis=0"
BODY = bytes(ROWS * 3 * 4)
FIGURES = (
    "tally_queue_requests",
    "tally_admission_waiting",
    "tally_queue_limit_requests",
    "tally_device_busy_seconds_total",
    "tally_device_requests_total",
)


def send(port, ends, pause_s):
    space = bytearray(1 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while not ends.wait(pause_s):
        try:
            connection.request("POST", PATH, BODY, {"Content-Type": "application/octet-stream"})
            answer = connection.getresponse()
            while answer.readinto(space):
                if ends.is_set():
                    break
        except OSError:
            return


def crowd(port, count, pause_s):
    ends = threading.Event()
    for _ in range(count):
        threading.Thread(target=send, args=(port, ends, pause_s), daemon=True).start()
    return ends


def sample(port):
    """The metrics, each summed over its labels."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    return [
        sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", page, re.M))
        for name in FIGURES
    ]


def main():
    port = free_port()
    flags = ["--listen", f"127.0.0.1:{port}", "--memory-budget", "2GiB", "--log-requests=false"]
    server = subprocess.Popen([BINARY, *flags, "--drain-delay-ms", "0"])
    time.sleep(1)
    samples, times_s, ends_s = [], [], []
    begin = time.monotonic()
    for seconds, (count, pause_s) in zip(PHASES_S, ((1, 1), (CROWD, 0), (1, 1))):
        ends = crowd(port, count, pause_s)
        ends_s.append(sum(ends_s[-1:]) + seconds)
        while time.monotonic() - begin < ends_s[-1]:
            times_s.append(round(time.monotonic() - begin, 3))
            samples.append(sample(port))
            time.sleep(1)
        ends.set()
    server.kill()
    server.wait()
    series = {name: list(column) for name, column in zip(FIGURES, zip(*samples))}
    print(json.dumps({"phases_end_s": ends_s, "times_s": times_s, "series": series}))


if __name__ == "__main__":
    main()
