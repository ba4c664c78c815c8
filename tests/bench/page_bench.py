#!/usr/bin/env python3
"""Measure how fast the page of a large fabric opens and how well it follows changes.

usage: page_bench.py BIN_FOLDER [--agents N] [--spines N] [--flows N] [--rate N] [--picture FILE]

Starts a controller and page_load, opens the page several times in a headless Chromium, and prints
medians of the times from the page and the controller.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "page"))
from chromium import Browser  # noqa: E402

TOKEN = "esp_of_the_page"
OPENINGS = 5
SECONDS = 20

# Counts frames and updates and measures their times since the last call.
WATCH = """(() => {
  const seen = window.seen = {frames: 0, longest: 0, updates: 0};
  let last = performance.now();
  const frame = (now) => {
    seen.frames += 1;
    seen.longest = Math.max(seen.longest, now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new MutationObserver(() => { seen.updates += 1; })
    .observe(document.body, {attributes: true, attributeFilter: ['data-updates']});
})()"""


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_share(pid, seconds):
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds


def status(address):
    request = urllib.request.Request(f"{address}/api/v1/status",
                                     headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def await_answer(address):
    for _ in range(1200):
        try:
            status(address)
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("the controller does not answer")


def open_page(address, browser, flows):
    browser.open("about:blank")
    browser.open(address + "/")
    browser.wait("document.body.dataset.firstPicture > 0", 120)
    browser.wait(f"parseInt(document.getElementById('figure-flows').textContent.replace(',', ''))"
                 f" >= {flows}", 120)
    return int(browser.run("document.body.dataset.firstPicture"))


def measure(address, controller, arguments):
    flows = arguments.agents * arguments.flows
    alone = cpu_share(controller.pid, 10)
    with Browser() as browser:
        browser.open(address + "/")
        browser.wait("document.getElementById('token') !== null")
        browser.run(f"fetch('/api/v1/login', {{method: 'POST', body: '{TOKEN}'}}).then(() => 1)")
        browser.problems.clear()  # the request for a token
        pictures = [open_page(address, browser, flows) for _ in range(OPENINGS)]
        browser.key("2")  # the flows, the largest table
        browser.run(WATCH)
        watched = cpu_share(controller.pid, SECONDS)
        seen = browser.run("window.seen")
        drawn = browser.run("document.body.dataset.drawMs") + " ms"
        if arguments.picture:
            browser.key("1")
            time.sleep(1)
            browser.picture(arguments.picture)
        if browser.problems:
            sys.exit(f"the page had problems: {browser.problems}")
    print(json.dumps({
        "agents": arguments.agents, "flows": status(address)["flows"],
        "flow_starts_per_second": arguments.rate,
        "first_picture_ms": statistics.median(pictures), "first_picture_all_ms": pictures,
        "updates_per_second": seen["updates"] / SECONDS,
        "frames_per_second": seen["frames"] / SECONDS,
        "longest_frame_ms": round(seen["longest"]), "drawn_in": drawn,
        "controller_cpu_alone": round(alone, 3), "controller_cpu_watched": round(watched, 3),
    }, indent=1))


def write_configuration(folder, host, bus, more=""):
    """Writes controller.conf, and the token that the API asks for."""
    # Heartbeats are long, so that agents do not seem dead on a busy machine.
    pathlib.Path(folder, "controller.conf").write_text(
        f'topology_file: "{folder}/topology.json"\nlisten: "tcp://{bus}"\n'
        f'state_file: "{folder}/store.db"\nhttp: "{host}"\nlog_level: "warning"\n'
        f'heartbeat_ms: 10000\ninsecure_plaintext: true\nkey_folder: "{folder}"\n{more}')
    tokens = [{"name": "page", "role": "viewer", "made": "2026-11-21T12:00Z",
               "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}]
    with open(os.open(f"{folder}/tokens", os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        json.dump({"tokens": tokens}, file)


@contextlib.contextmanager
def running(folder, bin_folder, load, more=""):
    """A controller and the agents of page_load, as (address of the API, process of the controller)."""
    host, bus = free_address(), free_address()
    subprocess.run([*load, f"--write-topology={folder}/topology.json"], check=True)
    write_configuration(folder, host, bus, more)
    controller = subprocess.Popen([bin_folder / "espalier-controller", f"--config={folder}/controller.conf"])
    await_answer(f"http://{host}")  # page_load sends its Hello only once
    agents = subprocess.Popen([*load, f"--controller=tcp://{bus}"], stdout=subprocess.PIPE, text=True)
    try:
        print(agents.stdout.readline(), end="")
        yield f"http://{host}", controller
    finally:
        for process in (agents, controller):
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--agents", type=int, default=2048)
    parser.add_argument("--spines", type=int, default=32)
    parser.add_argument("--flows", type=int, default=8)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    load = [arguments.bin / "page_load", f"--agents={arguments.agents}",
            f"--spines={arguments.spines}", f"--flows={arguments.flows}", f"--rate={arguments.rate}"]
    with tempfile.TemporaryDirectory() as folder, running(folder, arguments.bin, load) as (address, controller):
        measure(address, controller, arguments)


if __name__ == "__main__":
    main()
