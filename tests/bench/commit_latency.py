#!/usr/bin/env python3
"""Measure how long an operator's action takes until it is answered, and so durable.

Starts a controller with an idle fabric and sends it actions over its unix socket, one after another.
For comparison, measures the disk: the same number of appends of 4 KiB, each with fdatasync, to a file
in the same folder.

usage: commit_latency.py PROGRAM_FOLDER [--actions N] [--store FOLDER]
"""
import argparse
import http.client
import os
import pathlib
import socket
import subprocess
import tempfile
import time


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(path, method, target):
    connection = UnixConnection(path)
    connection.request(method, target)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def start(programs, folder):
    topology = subprocess.run(
        [programs / "espalier", "topology", "make", "leaf-spine", "--spines", "16", "--leaves", "32",
         "--hosts-per-leaf", "16"], check=True, capture_output=True).stdout
    (folder / "topology.json").write_bytes(topology)
    (folder / "controller.conf").write_text(
        f'topology_file: "{folder}/topology.json"\nstate_file: "{folder}/store.db"\n'
        f'listen: "tcp://127.0.0.1:*"\nhttp: "unix:{folder}/api.sock"\ninsecure_plaintext: true\n'
        f'key_folder: "{folder}"\nlog_level: "error"\n')
    process = subprocess.Popen([programs / "espalier-controller", "--config", folder / "controller.conf"])
    while True:
        try:
            if ask(f"{folder}/api.sock", "GET", "/healthz") == 200:
                return process
        except OSError:
            time.sleep(0.05)


def measure_actions(folder, actions):
    seconds = []
    for i in range(actions):
        verb = "drain" if i % 2 == 0 else "undrain"
        begin = time.perf_counter()
        status = ask(f"{folder}/api.sock", "POST", f"/api/v1/nodes/{verb}?id=spine{i // 2 % 16}")
        seconds.append(time.perf_counter() - begin)
        assert status == 200, status
    return seconds


def measure_disk(folder, appends):
    seconds = []
    with open(folder / "appended", "wb", buffering=0) as file:
        for _ in range(appends):
            begin = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - begin)
    return seconds


def tell(name, seconds):
    seconds.sort()
    at = lambda share: 1e3 * seconds[min(len(seconds) - 1, int(share * len(seconds)))]
    print(f"{name:28} p50 {at(0.5):7.2f} ms  p99 {at(0.99):7.2f} ms  worst {1e3 * seconds[-1]:7.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--actions", type=int, default=2000)
    parser.add_argument("--store", help="folder of the store (default: the folder for temporary files)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.store) as name:
        folder = pathlib.Path(name)
        process = start(options.programs.resolve(), folder)
        try:
            actions = measure_actions(folder, options.actions)
        finally:
            process.kill()
            process.wait()
        tell("an action until its answer", actions)
        tell("an append and fdatasync", measure_disk(folder, options.actions))


if __name__ == "__main__":
    main()
