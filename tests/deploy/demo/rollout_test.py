#!/usr/bin/env python3
"""Steering, a maintenance window and another topology on a live fabric, by the commands that operators type.

usage: rollout_test.py BIN_FOLDER
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from keep_test import LIMIT, wait_for


class Fabric:
    """A quickstart that goes on until it is stopped, and its `espalier` commands."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.log = folder / "log"
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [programs / "espalier-quickstart", "--seeds", "1", "--keep", "--json"],
                stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                env={**os.environ, "TMPDIR": str(folder)})
        self.controller = None

    def start(self):
        self.controller = self.wait(self.find_controller, "it tells the controller's address")

    def find_controller(self):
        found = re.search(r"export ESPALIER_CONTROLLER=(\S+)", self.log.read_text())
        return found.group(1) if found else None

    def wait(self, condition, what):
        return wait_for(condition, what, self.process)

    def run(self, *words):
        return subprocess.run([self.programs / "espalier", *words], text=True, capture_output=True,
                              timeout=LIMIT, env={**os.environ, "ESPALIER_CONTROLLER": self.controller})

    def do(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def status(self):
        """None while the controller starts again."""
        done = self.run("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def is_steered(self):
        status = self.status()
        return status if status and status["flows_by_status"]["ROUTED"] > 0 else None

    def is_unsteered(self):
        status = self.status()
        if not status or status["flows"] == 0:
            return None
        states = status["flows_by_status"]
        steered = states["ROUTED"] + states["LEARNING"] + states["NEW"]
        return status if steered == 0 and states["UNSTEERED"] > 0 else None

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            self.process.wait(timeout=LIMIT)


def check(fabric, folder):
    fabric.wait(fabric.is_steered, "flows are steered")
    fabric.do("steering", "off", "--force", "--reason", "test")
    status = fabric.wait(fabric.is_unsteered, "every flow takes plain ECMP")
    assert any("steering is off" in reason for reason in status["health_reasons"]), status
    fabric.do("steering", "on", "--force")
    fabric.wait(fabric.is_steered, "flows are steered again")

    fabric.do("maintenance", "add", "node", "spine0", "--until", "1h", "--force")
    links = json.loads(fabric.do("links", "--link", "*--spine0", "--json"))["links"]
    assert links and all(link["state"] == "DRAINED" for link in links), links
    fabric.do("maintenance", "cancel", "m1", "--force")

    configuration = next(folder.rglob("controller.conf")).read_text()
    topology = pathlib.Path(re.search(r'topology_file: "([^"]+)"', configuration).group(1))
    changed = json.loads(topology.read_text())
    changed["links"][-1]["gbps"] = 400
    file = folder / "changed.json"
    file.write_text(json.dumps(changed))
    before = fabric.status()
    assert "RATE" in fabric.do("topology", "apply", str(file), "--dry-run")
    fabric.do("topology", "apply", str(file), "--force")

    def is_back():
        status = fabric.is_steered()
        is_new = status and status["epoch"] > before["epoch"]
        return is_new and status["agents_connected"] == before["agents_connected"]
    fabric.wait(is_back, "agents and flows are back under the new topology")
    again = fabric.run("topology", "apply", str(file))
    assert again.returncode == 0 and "in force" in again.stderr, again


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fabric = Fabric(programs, folder)
        try:
            fabric.start()
            check(fabric, folder)
        finally:
            fabric.stop()
            if fabric.process.returncode != 0:
                print(fabric.log.read_text())


if __name__ == "__main__":
    main()
