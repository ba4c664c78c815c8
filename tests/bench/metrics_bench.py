#!/usr/bin/env python3
"""Measure the /metrics answer of a large fabric: its size, its series, its memory and the time that it takes.

usage: metrics_bench.py BIN_FOLDER [--agents N] [--spines N] [--flows N]

Starts a controller without a history (history_bench measures that) and page_load. When all flows are open, it reads the
resident memory of the controller, asks for /metrics several times, and reads the memory again.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import tempfile
import time
import urllib.request

import page_bench

REQUESTS = 20
PATIENCE = 600  # seconds


def resident_bytes(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1))


def read_metrics(address):
    request = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {page_bench.TOKEN}"})
    start = time.monotonic()
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read().decode()
    return text, time.monotonic() - start


def measure(address, controller, flows):
    end = time.monotonic() + PATIENCE
    while page_bench.status(address)["flows"] < flows and time.monotonic() < end:
        time.sleep(0.5)
    time.sleep(5)  # plans and paths that are still made
    before = resident_bytes(controller.pid)
    cpu = page_bench.cpu_seconds(controller.pid)
    idle_start = time.monotonic()
    time.sleep(5)
    idle = (page_bench.cpu_seconds(controller.pid) - cpu) / (time.monotonic() - idle_start)
    seconds = []
    cpu, start = page_bench.cpu_seconds(controller.pid), time.monotonic()
    for _ in range(REQUESTS):
        text, took = read_metrics(address)
        seconds.append(took)
        if len(seconds) == 1:
            first = resident_bytes(controller.pid)
    cpu = page_bench.cpu_seconds(controller.pid) - cpu - idle * (time.monotonic() - start)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    families = collections.Counter(re.match(r"[a-zA-Z_:]+", line).group() for line in lines)
    omitted = next(line for line in lines if line.startswith("espalier_controller_series_omitted "))
    print(json.dumps({
        "flows": page_bench.status(address)["flows"], "answer_bytes": len(text), "series": len(lines),
        "largest_families": dict(families.most_common(6)), "omitted": omitted.split()[1],
        "resident_before_bytes": before, "resident_first_answer_growth_bytes": first - before,
        f"resident_growth_after_{REQUESTS}_bytes": resident_bytes(controller.pid) - before,
        "answer_ms_median": round(1e3 * statistics.median(seconds), 1), "answer_ms_max": round(1e3 * max(seconds), 1),
        "answer_cpu_ms": round(1e3 * cpu / REQUESTS, 1),
    }, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--agents", type=int, default=2048)
    parser.add_argument("--spines", type=int, default=32)
    parser.add_argument("--flows", type=int, default=8)
    arguments = parser.parse_args()
    load = [arguments.bin / "page_load", f"--agents={arguments.agents}", f"--spines={arguments.spines}",
            f"--flows={arguments.flows}", "--rate=1"]
    # history_bench measures the history.
    with tempfile.TemporaryDirectory() as folder, \
            page_bench.running(folder, arguments.bin, load, "history_bytes: 0\n") as (address, controller):
        measure(address, controller, arguments.agents * arguments.flows)


if __name__ == "__main__":
    main()
