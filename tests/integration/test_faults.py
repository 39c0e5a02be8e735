"""Devices that fail under a running service: whatever OpenCL returns, an answer is correct or an
error.

The server has faults on demand (tests/lib/cl_fault.h); a file lists the faults and may change at
run time. Tests that need a second device to retry on, or one that compiles, use PoCL's.
"""

import concurrent.futures
import time

import numpy as np
import pytest

from support import calls
from support.tallyd import BINARY, FAULTY, POCL
from support.waiting import until

VALUES = np.arange(1, 4001, dtype=np.float32)
SUMS = np.cumsum(VALUES, dtype=np.float64).astype(np.float32)
PATH = f"/v1/cumsum?dtype=float32&shape={VALUES.size}"
SLOW_END = 120  # seconds until the server exits, on a busy machine


class Faults:
    """A server with faults on demand."""

    def __init__(self, start_server, path, *flags, devices=1, text="", **options):
        self.path = path
        self.say(text)
        env = {"TALLY_TEST_CL_FAULT": f"@{path}", "POCL_DEVICES": " ".join(["pthread"] * devices)}
        flags = (*(POCL if devices > 1 else ()), *flags)
        self.server = start_server(*flags, env=env, binary=FAULTY, **options)
        if options.get("wait", True):
            until(self.connects)
            until(self.is_well)

    def say(self, text):
        temporary = self.path.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(self.path)

    def ask(self):
        """Send one request; a success must have correct sums. Returns the status."""
        answer = self.client.post(PATH, VALUES.tobytes(), calls.RAW)
        self.server.check_alive()
        if answer.status == 200:
            assert np.array_equal(np.frombuffer(answer.body, np.float32), SUMS)
        else:
            assert answer.status in (500, 503), answer.body
            assert answer.status != 503 or "Retry-After" in answer.headers
            self.detail = calls.expect_error(answer, answer.status)["error"]
        return answer.status

    def connects(self):
        self.client = self.server.client()
        try:
            return self.client.get("/livez").status == 200
        except OSError:
            return False

    def devices(self):
        return self.client.get("/v1/devices").json()["devices"]

    def states(self):
        return [device["state"] for device in self.devices()]

    def is_not_ready(self):
        return self.client.get("/readyz").status == 503

    def is_well(self):
        answers = self.ask() == 200 and self.client.get("/readyz").status == 200
        return answers and set(self.states()) == {"ready"}

    def heals(self):
        """Remove all faults, and wait until the device has recovered by itself."""
        self.say("")
        until(self.is_well)


@pytest.fixture
def faults(start_server, tmp_path):
    def make(*flags, **options):
        return Faults(start_server, tmp_path / "fault", *flags, **options)

    return make


# A device of Tally's driver has two workers: while one is out of use, the other does all of the
# work. The loss of a device's only worker is tested on PoCL's.


def test_every_failing_call_is_answered_clearly_and_survived(faults):
    service = faults(*POCL, "--device-timeout-ms=20000")
    statuses = set()
    # number of calls before the failing one; with built kernels a request makes fewer calls
    for skip in (0, 2, 6, 12):
        service.say(f"skip={skip},count=1,code=-5")
        statuses.add(service.ask())
        service.heals()
    assert statuses == {200, 503}


def test_a_failing_call_is_retried_on_the_other_device(faults):
    service = faults(devices=2)
    service.say("skip=0,count=1,code=-5")
    assert service.ask() == 200
    page = service.client.get("/metrics").body.decode()
    assert "\ntally_batch_retries_total 1\n" in page
    assert sorted(device["errors"] for device in service.devices()) == [0, 1]
    service.heals()


def test_a_lost_device_is_out_of_use_until_it_is_back(faults):
    service = faults()
    service.say("skip=0,count=1000000000,code=-2")  # CL_DEVICE_NOT_AVAILABLE, permanently
    assert service.ask() == 503
    until(lambda: service.states() == ["failed"])
    assert "CL_DEVICE_NOT_AVAILABLE" in service.devices()[0]["last_error"]
    until(service.is_not_ready)
    assert service.client.get("/livez").status == 200
    assert service.ask() == 503
    service.heals()


def test_a_hung_kernel_is_abandoned_and_the_device_is_used_again(faults):
    service = faults(*POCL, "--device-timeout-ms=1000")
    service.say("hang_ms=4000")
    start = time.monotonic()
    assert service.ask() == 503
    assert time.monotonic() - start < 3.9
    assert "--device-timeout-ms" in service.detail
    assert "ready" not in service.states()
    until(service.is_not_ready)
    service.heals()


def test_a_device_that_hangs_with_a_round_of_segments_is_given_up_too(faults):
    """The worker keeps the memory of all scans of the round until the hanging device call has
    returned."""
    service = faults(*POCL, "--device-timeout-ms=1000")
    document = {"data": list(range(3000)), "offsets": [0, *range(1, 1000, 3), 3000]}
    whole = service.client.post_json("/v1/cumsum", document)
    assert whole.status == 200
    service.say("hang_ms=4000")
    answer = service.client.post_json("/v1/cumsum", document)
    calls.expect_error(answer, 503, "device_error")
    until(service.is_not_ready)
    service.heals()
    assert service.client.post_json("/v1/cumsum", document).body == whole.body


@pytest.mark.release_only  # the clock of other builds cannot be moved
def test_time_in_which_nothing_of_the_process_ran_is_not_the_devices(faults):
    """In a paused container, or in a debugger, the clock continues while the process does not
    run."""
    service = faults(*POCL, "--device-timeout-ms=20000", moves_clock=True)
    service.say("hang_ms=1000")  # ten heartbeats
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.ask)
        watcher = service.server.client()
        until(lambda: watcher.get("/v1/devices").json()["devices"][0]["running"] == 1)
        service.server.pass_time(60)
        assert asked.result() == 200
    assert service.states() == ["ready"]


@pytest.mark.release_only  # the clock of other builds cannot be moved
@pytest.mark.parametrize("path, status", [("/v1/cumsum", 504), ("/v2/models/cumsum/infer", 503)])
def test_sums_that_a_device_has_after_their_deadline_are_no_answer(faults, path, status):
    service = faults(*POCL, "--device-timeout-ms=20000", moves_clock=True)
    tensor = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]}
    body = {"inputs": [tensor]} if "v2" in path else {"data": [1, 2, 3]}
    service.say("hang_ms=500")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        headers = {"X-Request-Timeout-Ms": "30000"}
        text = calls.json_body(body)
        asked = pool.submit(service.client.post, path, text, calls.JSON, headers)
        watcher = service.server.client()
        until(lambda: watcher.get("/v1/devices").json()["devices"][0]["running"] == 1)
        service.server.pass_time(31)
        answer = asked.result()
    calls.expect_error(answer, status, "deadline_passed", says="before the answer could be made")
    assert service.states() == ["ready"]  # the device did nothing wrong


def test_a_hang_while_kernels_are_built_is_a_clear_state_of_the_device(faults):
    service = faults(*POCL, "--device-timeout-ms=100", text="build_ms=20000", wait=False)
    until(service.connects)
    start = time.monotonic()
    # the request waits for the device
    answer = service.client.post(PATH, VALUES.tobytes(), calls.RAW)
    assert answer.status == 503 and "Retry-After" in answer.headers
    assert time.monotonic() - start < 19.9
    until(lambda: "none of the OpenCL devices can be used" in service.server.log)
    assert "while its kernels were built" in service.server.log
    assert service.server.wait(SLOW_END) == 3


def test_the_service_is_ready_once_its_device_is_and_not_before(faults):
    service = faults(*POCL, text="build_ms=200", wait=False)
    until(service.connects)
    assert service.states() == ["opening"] and service.is_not_ready()
    assert " info ready\n" not in service.server.log
    service.say("")
    until(lambda: not service.is_not_ready())
    assert service.states() == ["ready"]
    log = until(lambda: " info ready\n" in service.server.log and service.server.log)
    assert 0 < log.index(" is ready after ") < log.index(" info ready\n")


def test_a_slow_device_keeps_nobody_waiting_as_an_idle_connection(faults):
    service = faults("--idle-timeout-s=1")
    service.say("hang_ms=2500")
    assert service.ask() == 200


def test_the_other_device_answers_while_one_hangs(faults):
    service = faults("--device-timeout-ms=1000", devices=2)
    service.say("hang_ms=3000")
    assert service.ask() == 503
    service.say("")
    statuses = [service.ask() for _ in range(20)]
    assert statuses.count(200) == 20
    service.heals()


def test_a_device_that_computes_wrongly_is_not_taken_back(faults):
    service = faults(*POCL)
    # a call fails, then the self-test gives wrong sums, twice
    service.say("skip=0,count=1,code=-5,selftest=2")
    assert service.ask() == 503
    until(lambda: "computes wrongly" in service.devices()[0]["last_error"])
    assert service.devices()[0]["state"] != "ready"
    until(service.is_well)  # the next self-test succeeds


@pytest.mark.parametrize("text", ["selftest=1000000", "skip=3,count=9999,code=-6"])
def test_a_service_without_a_single_good_device_does_not_start(faults, text):
    service = faults(text=text, wait=False)
    assert service.server.wait(SLOW_END) == 3
    assert "none of the OpenCL devices can be used" in service.server.log


def test_a_kernel_that_does_not_build_is_named(faults):
    service = faults(*POCL, text="build=-DELEM_I16", wait=False)
    assert service.server.wait(SLOW_END) == 3
    assert "int16: " in service.server.log and "clBuildProgram" in service.server.log


def test_a_device_that_compiles_builds_before_it_is_ready_and_never_after(faults):
    service = faults(*POCL)
    service.say("build=-DELEM")  # every program fails to build
    client = service.client
    for name in ("float16", "bfloat16", "float64", "int8", "uint16", "int32", "uint64"):
        for query in ("shape=50,60&axis=1", "shape=50,60&axis=0", "shape=3000"):
            size = 3000 * (2 if name == "bfloat16" else np.dtype(name).itemsize)
            path = f"/v1/cumsum?dtype={name}&{query}"
            answer = client.post(path, bytes(size), calls.RAW)
            assert answer.status == 200 and not any(answer.body), (path, answer.body[:300])
    assert service.states() == ["ready"]


def test_running_out_of_device_memory_is_an_error_of_the_request(faults):
    service = faults()
    service.say("skip=0,count=1000000000,code=-4")  # CL_MEM_OBJECT_ALLOCATION_FAILURE
    assert service.ask() == 503
    assert "device 0 (" in service.detail and "try again" in service.detail
    service.say("")
    service.heals()


def test_the_ordinary_server_knows_no_faults(start_server):
    server = start_server(env={"TALLY_TEST_CL_FAULT": "skip=0,count=1000000000,code=-5"})
    assert BINARY != FAULTY
    client = server.client()
    answer = client.post(PATH, VALUES.tobytes(), calls.RAW)
    assert answer.status == 200
    assert np.array_equal(np.frombuffer(answer.body, np.float32), SUMS)
