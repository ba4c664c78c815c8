"""The lab in which tests/acceptance/operator types its commands: quickstart's, with two jobs that run until the end."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

PATIENCE = 240  # seconds, for what must happen
JOB_FLOWS = 16  # of both jobs, while both are in a round


def descendants(pid):
    """The processes that this one started, and those that they started."""
    children = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(folder.name))
    found = children.get(pid, [])
    for child in found:
        found.extend(children.get(child, []))
    return found


def program_of(pid):
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


@dataclasses.dataclass
class Outcome:
    command: str
    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self):
        return self.out + self.err

    def json(self):
        return json.loads(self.out)


class Shell:
    """Runs command lines in a folder; `espalier` in them is this build's, and $ROOT the source tree."""

    def __init__(self, binaries, folder=None):
        self.binaries = pathlib.Path(binaries)
        self.cwd = folder
        self.environment = {**os.environ, "ROOT": str(pathlib.Path(__file__).resolve().parents[3])}

    def run(self, command, stdin=None):
        start = time.monotonic()
        path = f"{self.binaries}:{self.environment['PATH']}"
        done = subprocess.run(["sh", "-c", command], input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
                              capture_output=True, text=True, timeout=PATIENCE, cwd=self.cwd,
                              env={**self.environment, "PATH": path})
        return Outcome(command, done.returncode, done.stdout, done.stderr, time.monotonic() - start)


class Lab(Shell):
    """Runs espalier-quickstart --keep; use it in a `with` statement."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name, "log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [self.binaries / "espalier-quickstart", "--seeds", "1", "--keep", "--json"], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
                env={**os.environ, "TMPDIR": self.folder.name})
        self.wait_for(lambda: "logs: " in self.log.read_text(), "the lab is up")
        lines = self.log.read_text().splitlines()
        self.environment["ESPALIER_CONTROLLER"] = next(
            line.split("ESPALIER_CONTROLLER=")[1] for line in lines if "ESPALIER_CONTROLLER=" in line)
        self.logs = pathlib.Path(next(line for line in lines if line.startswith("logs: "))[6:].removesuffix("/*.log"))
        self.wait_for(lambda: len(self.ask("jobs")["jobs"]) >= 2, "both jobs run")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.folder.cleanup()

    def wait_for(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None:
                raise RuntimeError(f"the lab ended before {what}:\n{self.log.read_text()[-2000:]}")
            if time.monotonic() > end:
                raise RuntimeError(f"never: {what}")
            time.sleep(0.1)

    def ask(self, words):
        """The JSON of a command; {} if it fails."""
        outcome = self.run(f"espalier {words} --json")
        return outcome.json() if outcome.code == 0 and outcome.out else {"jobs": []}

    @contextlib.contextmanager
    def open_flows(self):
        """The programs of the jobs stand still meanwhile, in the middle of a round: all of its flows stay open."""
        programs = [pid for pid in descendants(self.process.pid) if program_of(pid) == "espalier-traffic"]

        def signal_all(what):
            for pid in programs:
                os.kill(pid, what)

        def stand_still():
            if self.ask("status").get("flows", 0) < JOB_FLOWS:
                return False
            signal_all(signal.SIGSTOP)
            time.sleep(0.5)  # what was under way is reported
            if self.ask("status").get("flows", 0) >= JOB_FLOWS:
                return True
            signal_all(signal.SIGCONT)
            return False

        try:
            self.wait_for(stand_still, "all flows of a round are open")
            yield
        finally:
            signal_all(signal.SIGCONT)

    def in_lab(self, words):
        return self.run(f"espalier lab {words[0]} --name quickstart {shlex.join(words[1:])}")
