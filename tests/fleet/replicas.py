"""Replicas of tallyd behind HAProxy with the lines of deploy/haproxy.cfg, as if on separate
machines: each replica has a network namespace with its address in that file. If namespaces
cannot be created, the addresses are loopback ones.

A script calls inside() first. It restarts the script in a namespace of its own, which also holds
HAProxy and the clients. The namespaces end with their processes and need no cleanup.

With `root` a replica is the program of the image: its root is that folder (tests/fleet/root.sh
creates it), read-only, its user is 65532, and it has no capabilities (tests/image/chroot.sh)."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/bench"))

import load  # noqa: E402

CONFIG = TOP / "deploy/haproxy.cfg"
HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
INSIDE = "TALLY_TEST_FLEET_INSIDE"
PATIENCE = 60


def inside():
    """True: this process is alone in a network namespace. False: namespaces are not available."""
    if INSIDE in os.environ:
        if os.environ[INSIDE] == "namespace":
            command("ip", "link", "set", "lo", "up")
        return os.environ[INSIDE] == "namespace"
    unshare = ["unshare", "--net"] + ["--user", "--map-root-user"] * (os.getuid() != 0)
    trial = "ip link add tally0 type veth peer name tally1"
    there = shutil.which("ip") and shutil.which("unshare") and shutil.which("nsenter")
    can = (
        there and subprocess.run([*unshare, "sh", "-c", trial], capture_output=True).returncode == 0
    )
    os.environ[INSIDE] = "namespace" if can else "loopback"
    program = [sys.executable, *sys.argv]
    os.execvp((unshare + program)[0] if can else program[0], unshare + program if can else program)


def command(*words):
    subprocess.run([str(word) for word in words], check=True)


def until(condition, what, patience=PATIENCE):
    latest = time.monotonic() + patience
    while not condition():
        if time.monotonic() > latest:
            raise RuntimeError(f"after {patience} s: {what}")
        time.sleep(0.01)


class Replica:
    """A tallyd that can be ended and restarted at the same address."""

    def __init__(self, fleet, number, name, address, port):
        self.fleet, self.name, self.address, self.port = fleet, name, address, port
        self.log = fleet.folder / f"{name}.log"
        self.process = None
        self.enter = []
        if not fleet.namespaces:
            return
        self.holder = fleet.keep(load.start(["unshare", "--net", "sleep", "infinity"]))
        own = os.readlink("/proc/self/ns/net")
        namespace = f"/proc/{self.holder.pid}/ns/net"
        until(lambda: os.readlink(namespace) != own, "a replica has no network namespace")
        self.enter = ["nsenter", f"--net={namespace}", "--"]
        here = f"replica{number}"
        command(*f"ip link add {here} type veth peer name eth0 netns {self.holder.pid}".split())
        command(*f"ip address add {fleet.here} peer {address} dev {here}".split())
        command(*f"ip link set {here} up".split())
        command(*self.enter, *f"ip address add {address} peer {fleet.here} dev eth0".split())
        command(*self.enter, *"ip link set eth0 up".split())
        command(*self.enter, *"ip link set lo up".split())

    def start(self):
        program = [self.fleet.binary]
        if self.fleet.root:
            chroot = TOP / "tests/image/chroot.sh"
            program = ["sh", chroot, self.fleet.root, "/usr/local/bin/tallyd"]
        program += ["--listen", f"{self.address}:{self.port}", *self.fleet.flags]
        with open(self.log, "ab") as log:
            self.process = load.start([*self.enter, *program], stdout=log, stderr=log)
        self.fleet.keep(self.process)

    def terminate(self):
        """Send SIGTERM, as a supervisor does, and wait for exit status 0."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(PATIENCE) != 0:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self.tail()}")

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def tail(self):
        return self.log.read_text(errors="replace")[-2000:]


class Fleet:
    """HAProxy with one replica for each server in its file. `adapt` changes lines of the file:
    pattern -> text."""

    def __init__(
        self, folder, namespaces, binary=load.BIN / "tallyd", root=None, flags=(), adapt=None
    ):
        self.folder, self.namespaces = pathlib.Path(folder), namespaces
        self.binary, self.root, self.flags = binary, root, flags
        self.started = []
        text = CONFIG.read_text()
        for pattern, new in (adapt or {}).items():
            text, changed = re.subn(pattern, new, text)
            if changed == 0:
                raise RuntimeError(f"nothing in {CONFIG.name} matches {pattern}")
        self.here = re.search(r"^ +server \S+ (\S+)\.\d+:", text, re.M)[1] + ".1"
        self.port = int(re.search(r"^ +bind :(\d+)", text, re.M)[1])
        if not namespaces:  # local addresses and free ports
            text = re.sub(
                r"(^ +server \S+ )\S+\.(\d+):\d+",
                rf"\g<1>127.0.77.\2:{load.free_port()}",
                text,
                flags=re.M,
            )
            self.port = load.free_port()
            text = re.sub(r"^( +bind) :\d+", rf"\1 127.0.0.1:{self.port}", text, flags=re.M)
        self.config = self.folder / "haproxy.cfg"
        self.config.write_text(text)
        self.socket = self.folder / "haproxy.sock"
        more = self.folder / "statistics.cfg"
        more.write_text(f"global\n    stats socket {self.socket} level admin\n")
        servers = re.findall(r"^ +server (\S+) (\S+):(\d+)", text, re.M)
        self.replicas = [
            Replica(self, number, name, address, int(port))
            for number, (name, address, port) in enumerate(servers)
        ]
        for replica in self.replicas:
            replica.start()
        with open(self.folder / "haproxy.log", "wb") as log:
            files = ["-f", self.config, "-f", more]
            self.proxy = self.keep(load.start([HAPROXY, "-db", *files], stdout=log, stderr=log))
        self.await_up()

    def keep(self, process):
        self.started.append(process)
        return process

    def ask(self, words):
        """HAProxy's answer to a command."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self.socket))
            connection.sendall(words.encode() + b"\n")
            text = b""
            while data := connection.recv(65536):
                text += data
        return text.decode()

    def states(self):
        """{server: UP or DOWN} as reported by HAProxy."""
        with contextlib.suppress(OSError):
            lines = self.ask("show stat -1 4 -1").removeprefix("# ").splitlines()
            names = lines[0].split(",")
            rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
            return {row["svname"]: row["status"] for row in rows}
        return {}

    def await_up(self):
        """Wait until HAProxy sends requests to every replica."""

        def up():
            for process in [self.proxy, *(replica.process for replica in self.replicas)]:
                if process.poll() is not None:
                    logs = "\n".join(p.read_text()[-1000:] for p in self.folder.glob("*.log"))
                    raise RuntimeError(f"{process.args} ended with {process.returncode}: {logs}")
            return list(self.states().values()) == ["UP"] * len(self.replicas)

        until(up, "HAProxy does not see all replicas up")

    def end(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
