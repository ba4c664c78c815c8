#!/usr/bin/env python3
"""`espalier lab up --sflow`: real sampling agents in the switches attest each steered flow.

usage: sampled_lab_test.py BIN_FOLDER
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

LIMIT = 120  # seconds, for each thing to happen
NAME = f"sflow{os.getpid()}"


def main():
    if shutil.which("uacctd") is None:
        print("skipped: uacctd is not installed (apt-get install pmacct)")
        return 77
    espalier = str(pathlib.Path(sys.argv[1]) / "espalier")

    def run(*words):
        done = subprocess.run([espalier, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0 and "namespaces" in done.stderr:
            print(f"skipped: {done.stderr.strip()}")
            sys.exit(77)
        assert done.returncode == 0, f"espalier {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    up = json.loads(run("lab", "up", "--name", NAME, "--sflow", "8", "--spines", "2", "--leaves", "2",
                        "--hosts-per-leaf", "2", "--link-mbps", "20", "--json"))
    workload = tempfile.NamedTemporaryFile("w", suffix=".json")
    json.dump({"flows": [{"id": f"f{i}", "source": f"h{i}", "destination": f"h{2 + i}", "bytes": 10**10}
                         for i in range(2)]}, workload)
    workload.flush()
    traffic = subprocess.Popen([espalier, "lab", "traffic", "--name", NAME, "--workload", workload.name, "--agents",
                                "--time-limit", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + LIMIT
        while True:
            flows = json.loads(run("flows", "--controller", up["controller_api"], "--json"))["flows"]
            states = [flow["attested"]["state"] for flow in flows]
            if states == ["AS_DECIDED"] * 2:
                break
            assert time.monotonic() < end, f"never attested: {flows}"
            assert traffic.poll() is None, "the traffic has ended"
            time.sleep(0.5)
        # The links that switches saw are those of the path that was decided.
        for flow in flows:
            assert flow["attested"]["samples"] > 0, flow
            for link in flow["attested"]["via"]:
                assert flow["via"] in link, flow
    finally:
        traffic.terminate()
        traffic.wait()
        run("lab", "down", "--name", NAME)
    end = time.monotonic() + LIMIT
    while left := subprocess.run(["pgrep", "-af", f"labs/{NAME}/"], capture_output=True, text=True).stdout:
        assert time.monotonic() < end, f"still running: {left}"
        time.sleep(0.1)
    print("2 flows are attested; nothing is left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
