"""What a sample costs the collector of sFlow, beside pmacct's sfacctd on the same stream, and in a benchmark."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time

from parts import link_faults

TARGETS = ["espalier", "espalier-telemetry", "telemetry_bench"]
SAMPLES = 6  # of a datagram
DATAGRAMS_A_SECOND = 10_000
FLOWS = 100_000


def sample(flow, port):
    """A compact flow sample of a RoCEv2 packet of this flow that came in at this port."""
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 1068, 0, 0x4000, 63, 17, 0, 0x0A000000 + flow // 16, 0x0A800000 + flow)
    udp = struct.pack(">HHHH", 49_152 + flow % 16_384, 4791, 1048, 0)
    header = bytes(12) + b"\x08\x00" + ip + udp + struct.pack(">BBHI", 0x0A, 0, 0xFFFF, flow) + bytes(4)
    padded = header + bytes(-len(header) % 4)
    record = struct.pack(">IIIIII", 1, 16 + len(padded), 1, 1086, 4, len(header)) + padded
    body = struct.pack(">IIIIIIII", 1, port, 4096, 0, 0, port, 0, 1) + record
    return struct.pack(">II", 1, len(body)) + body


def stream():
    """Datagrams of one switch, without their sequence numbers (at byte 16)."""
    chance = random.Random(1)
    datagrams = []
    for _ in range(10_000):
        flows = [chance.randrange(FLOWS) for _ in range(SAMPLES)]
        head = struct.pack(">IIIIIII", 5, 1, 0x7F000001, 0, 0, 10_000, SAMPLES)
        datagrams.append(bytearray(head + b"".join(sample(flow, 1 + flow % 2) for flow in flows)))
    return datagrams


def send(datagrams, port, seconds):
    """Sends at an even pace. Returns the number of samples."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begin, sent = time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds:
        while sent < now * DATAGRAMS_A_SECOND:
            datagram = datagrams[sent % len(datagrams)]
            struct.pack_into(">I", datagram, 16, sent + 1)
            out.sendto(datagram, ("127.0.0.1", port))
            sent += 1
        time.sleep(0.001)
    return sent * SAMPLES


def processor_seconds(process):
    """Of a process and its children."""
    total = 0
    for each in [process.pid, *map(int, subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True,
                                                      text=True).stdout.split())]:
        fields = pathlib.Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def measure(start, count, datagrams, port, seconds):
    """Processor time in us a sample, and the part of the samples that was lost."""
    process = start()
    try:
        time.sleep(2)
        before = processor_seconds(process)
        sent = send(datagrams, port, seconds)
        time.sleep(1)
        used = processor_seconds(process) - before
        counted = count(process)
        return used / max(counted, 1) * 1e6, 1 - counted / sent
    finally:
        end(process)


def end(process):
    """sfacctd writes what it has counted, and ends, on SIGINT only."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(report, folder, seconds=20):
    bench = json.loads(subprocess.run([str(folder / "telemetry_bench"), "--benchmark_format=json"], capture_output=True,
                                      text=True, check=True).stdout)
    for row in bench["benchmarks"]:
        rate, socket_too = row["items_per_second"] / 1e6, row["name"].startswith("BM_FromSocket")
        report.add(f"millions of samples a second on one core, {row['name'].split('/')[1]} flows"
                   + (", from the socket" if socket_too else ", from the bytes"), f"{rate:.2f}", "at least 1", rate >= 1)
    with tempfile.TemporaryDirectory() as scratch:
        files = pathlib.Path(scratch)
        made = subprocess.run([str(folder / "espalier"), "topology", "make", "leaf-spine", "--spines", "1", "--leaves", "2",
                               "--hosts-per-leaf", "1"], capture_output=True, text=True, check=True).stdout
        (files / "topology.json").write_text(made, encoding="utf-8")
        (files / "telemetry.conf").write_text(
            f'topology_file: "{files}/topology.json"\ncontroller: "unix:{files}/none"\nlisten: "127.0.0.1:6351"\n'
            f'http: "unix:{files}/http"\nexporter: "spine0 127.0.0.1"\nport: "spine0 1 leaf0--spine0"\n'
            'port: "spine0 2 leaf1--spine0"\n', encoding="utf-8")
        (files / "sfacctd.conf").write_text(
            "daemonize: false\nsfacctd_ip: 127.0.0.1\nsfacctd_port: 6350\nplugin_buffer_size: 1024000\n"
            "plugin_pipe_size: 102400000\nplugins: print[x]\naggregate[x]: src_host,dst_host,src_port,dst_port,proto\n"
            f"print_refresh_time[x]: 3600\nprint_cache_entries[x]: 200003\nprint_output[x]: csv\n"
            f"print_output_file[x]: {files}/flows.csv\n", encoding="utf-8")

        def launch(*words):
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def ours(_):
            with socket.socket(socket.AF_UNIX) as http:
                http.connect(f"{files}/http")
                http.sendall(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")
                answer = b""
                while piece := http.recv(65536):
                    answer += piece
            return next(float(line.split()[1]) for line in answer.decode().splitlines()
                        if line.startswith("espalier_telemetry_samples_total "))

        def theirs(process):
            end(process)
            link_faults.wait(lambda: (files / "flows.csv").exists(), 10)
            time.sleep(1)
            rows = (files / "flows.csv").read_text(encoding="utf-8").splitlines()
            packets = rows[0].split(",").index("PACKETS")
            return sum(int(row.split(",")[packets]) for row in rows[1:])

        datagrams = stream()
        mine, peer = [], []
        for _ in range(3):
            mine.append(measure(lambda: launch(str(folder / "espalier-telemetry"), "--config", str(files / "telemetry.conf")),
                                ours, datagrams, 6351, seconds))
            if shutil.which("sfacctd"):
                peer.append(measure(lambda: launch("sfacctd", "-f", str(files / "sfacctd.conf")), theirs, datagrams, 6350,
                                    seconds))
    cost = statistics.median(one[0] for one in mine)
    lost = max(one[1] for one in mine)
    report.add(f"processor time of espalier-telemetry for a sample, {FLOWS:,} flows, {DATAGRAMS_A_SECOND * SAMPLES:,} a second",
               f"{cost:.2f} us, {100 * lost:.2f} % lost", "none lost", lost <= 0)
    if peer:
        other = statistics.median(one[0] for one in peer)
        report.add("the same of sfacctd, in turn", f"{other:.2f} us, {100 * max(one[1] for one in peer):.2f} % lost",
                   "at least ours", cost <= other)
