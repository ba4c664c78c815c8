#!/usr/bin/env python3
"""`espalier-quickstart --keep`: flows run until Ctrl-C, the page shows them, and nothing is left.

usage: keep_test.py BIN_FOLDER
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

LIMIT = 120  # seconds, for each thing to happen


def processes_of(folder):
    """The demo's processes, which have its folder in their command lines."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass  # it has just ended
    return found


def wait_for(condition, what, process):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        if process.poll() is not None:
            sys.exit(f"it ended ({process.returncode}) before {what}")
        time.sleep(0.1)
    sys.exit(f"never: {what}")


def ask(address, path):
    with urllib.request.urlopen(address + path, timeout=30) as answer:
        return answer.read()


def page_address(log):
    for line in log.read_text().splitlines():
        if line.strip().startswith("the page: http://"):
            return line.split("the page: ")[1].rstrip("/")
    return None


def rounds(address):
    jobs = json.loads(ask(address, "/api/v1/jobs"))["jobs"]
    return {job["job"]: job["rounds"] for job in jobs}


def state_folder(log):
    line = next(line for line in log.read_text().splitlines() if line.startswith("logs: "))
    return pathlib.Path(line.removeprefix("logs: ").removesuffix("/*.log"))


def process_with(*parts):
    for entry in pathlib.Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
        except OSError:
            continue  # it has just ended
        if arguments and arguments[0].endswith(parts[0]) and parts[1] in arguments:
            return int(entry.name)
    return None


def status(address):
    try:
        return json.loads(ask(address, "/api/v1/status"))
    except OSError:
        return None


def lose_controller(binary, address, logs, process):
    """The drill of docs/operating.md: the page is back as soon as there is a controller again."""
    config = str(logs / "controller.conf")
    os.kill(process_with("espalier-controller", config), signal.SIGKILL)
    wait_for(lambda: status(address) is None, "the page notices that the controller is gone", process)
    again = subprocess.Popen([binary.parent / "espalier", "lab", "exec", "--name", "quickstart", "controller",
                              "--", binary.parent / "espalier-controller", "--config", config],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: (status(address) or {}).get("agents_connected") == 16, "all agents are back", process)
    assert b"<title>Espalier</title>" in ask(address, "/")
    assert again.poll() is None


def lose_agent(address, logs, log, process):
    """The lab goes on without an agent, which is shown as missing and then started again."""
    os.kill(process_with("espalier-agent", str(logs / "h5.conf")), signal.SIGKILL)
    missing = wait_for(lambda: (status(address) or {}).get("agents_connected") == 15 and status(address),
                       "the agent is missed", process)
    assert missing["health"] != "ok" and missing["hosts_without_agent"] == 1, missing
    wait_for(lambda: (status(address) or {}).get("agents_connected") == 16, "the agent is back", process)
    assert "espalier-agent of h5 was started again." in log.read_text(), log.read_text()


def main():
    binary = pathlib.Path(sys.argv[1]) / "espalier-quickstart"
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        environment = {**os.environ, "TMPDIR": folder}
        # A separate process group, like a shell's job: Ctrl-C goes to all of it.
        with log.open("w") as errors:
            process = subprocess.Popen([binary, "--seeds", "1", "--keep", "--json"], text=True,
                                       stdout=subprocess.PIPE, stderr=errors, env=environment,
                                       start_new_session=True)
        try:
            address = wait_for(lambda: page_address(log), "it tells the page's address", process)
            assert b"<title>Espalier</title>" in ask(address, "/")
            before = wait_for(lambda: rounds(address), "jobs run", process)
            wait_for(lambda: all(rounds(address).get(job, 0) > before.get(job, 0) + 1
                                 for job in ("A", "B")), "their All-Reduces go on", process)
            wait_for(lambda: json.loads(ask(address, "/api/v1/status"))["flows"] > 0,
                     "flows are seen", process)
            assert processes_of(folder), "its daemons run"
            logs = state_folder(log)
            assert (logs / "controller.log").read_text(), "the logs are not empty"
            lose_controller(binary, address, logs, process)
            lose_agent(address, logs, log, process)
            os.killpg(process.pid, signal.SIGINT)
            printed, _ = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
        assert process.returncode == 0, (process.returncode, log.read_text())
        assert json.loads(printed)["fabric"] == "4x4x4"
        end = time.monotonic() + LIMIT
        while processes_of(folder) and time.monotonic() < end:
            time.sleep(0.1)
        assert not processes_of(folder), "no process is left"
        left = [path.name for path in pathlib.Path(folder).iterdir()]
        assert left == ["log"], left
        assert "ended early" not in log.read_text(), log.read_text()


if __name__ == "__main__":
    main()
