"""An allreduce of 16 MB by two hosts of four ranks in a lab, with one slow network link each: shared memory within
the hosts and TCP between them, beside the same ranks over TCP alone and, if its compiler is installed
(deploy/setup --peers), Open MPI, in turns. Every sum is checked. The switches' counters are the judge of what
crossed the link. Times are the slowest rank's, medians over the calls.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

TARGETS = ["espalier", "espalier-lab-rank"]

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINK_MBPS = 200
HOSTS = 2
RANKS_PER_HOST = 4
RANKS = HOSTS * RANKS_PER_HOST
BYTES = 16 << 20
CALLS = {True: 4, False: 6}  # by --quick; the first one connects and does not count
ROUNDS = {True: 1, False: 3}
LEAST_OVER_PEER = 2
MOST_OVER_LINK = 1.15  # the time, over that of the least bytes at the link's rate
MOST_BYTES_OVER_LEAST = 1.08  # headers and acknowledgements


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


class Lab:
    """Two leaves with one host each, and a spine."""

    def __init__(self, espalier):
        self.espalier = str(espalier)
        self.name = f"collectives{os.getpid()}"

    def __enter__(self):
        subprocess.run([self.espalier, "lab", "up", "--name", self.name, "--spines", "1", "--leaves", str(HOSTS),
                        "--hosts-per-leaf", "1", "--link-mbps", str(LINK_MBPS)], check=True, capture_output=True)
        return self

    def __exit__(self, *_):
        subprocess.run([self.espalier, "lab", "down", "--name", self.name], capture_output=True)

    def command(self, host, *words):
        return [self.espalier, "lab", "exec", "--name", self.name, f"h{host}", "--", *map(str, words)]

    def crossed(self):
        """The bytes that leaf 0 has sent to the spine."""
        found = json.loads(subprocess.run([self.espalier, "lab", "counters", "--name", self.name, "--json"],
                                          check=True, capture_output=True, text=True).stdout)
        return sum(one["out_bytes"] for one in found["interfaces"]
                   if one["node"] == "leaf0" and one["link"] == "leaf0--spine0")


def address(host):
    return f"10.{host}.0.1"


def run_ours(folder, lab, medium, calls):
    """The times of the slowest rank, without the first call's, and the bytes that a call took across the link."""
    with tempfile.TemporaryDirectory() as store:
        before = lab.crossed()
        ranks = [subprocess.Popen(
            lab.command(rank // RANKS_PER_HOST, folder / "espalier-lab-rank", "--store", store, "--address",
                        address(rank // RANKS_PER_HOST), "--rank", rank, "--ranks", RANKS, "--bytes", BYTES, "--calls",
                        calls, "--medium", medium), stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]
        rows = []
        for rank in ranks:
            rows.append([json.loads(line) for line in rank.communicate()[0].splitlines()])
        if any(rank.returncode != 0 or any(row["wrong_sums"] for row in own) for rank, own in zip(ranks, rows)):
            sys.exit(f"tests/acceptance/collectives: an allreduce over {medium} failed or was wrong")
        crossed = (lab.crossed() - before) / calls
    return [max(own[call]["seconds"] for own in rows) for call in range(1, calls)], crossed


def build_peer(scratch):
    """The peer's program, or nothing if its compiler is not there."""
    if not shutil.which("mpicxx.openmpi") or not shutil.which("mpirun.openmpi"):
        return None
    program = scratch / "mpi_collective"
    done = subprocess.run(["mpicxx.openmpi", "-O2", "-std=c++20", f"-I{ROOT}",
                           ROOT / "tests/bench/peers/mpi_collective.cc", "-o", program], capture_output=True)
    return program if done.returncode == 0 else None


def run_peer(lab, scratch, program, calls):
    """Open MPI's median time. Its daemons start through the lab, each with a host name of its own."""
    agent = scratch / "agent"
    agent.write_text("#!/bin/bash\nhost=${1#10.}; host=${host%%.*}; shift\n"
                     f"exec {lab.espalier} lab exec --name {lab.name} h$host -- "
                     "unshare -u sh -c \"hostname h$host; $*\"\n")
    agent.chmod(0o755)
    hosts = ",".join(f"{address(host)}:{RANKS_PER_HOST}" for host in range(HOSTS))
    run = ("hostname h0; exec mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca plm_rsh_agent "
           f"{agent} --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include "
           f"eth0 --host {hosts} -np {RANKS} {program} allreduce {calls - 1} {BYTES}")
    done = subprocess.run(lab.command(0, "unshare", "-u", "sh", "-c", run), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit("tests/acceptance/collectives: Open MPI failed in the lab:\n" + (done.stdout + done.stderr)[-2000:])
    return float(done.stdout.split()[1])


def checks(folder, quick):
    times = {"hosts": [], "tcp": [], "tcp-chosen": [], "Open MPI": []}
    crossed = {}
    with tempfile.TemporaryDirectory() as name, Lab(folder / "espalier") as lab:
        scratch = pathlib.Path(name)
        scratch.chmod(0o755)
        peer = build_peer(scratch)
        for _ in range(ROUNDS[quick]):
            for medium in ("hosts", "tcp", "tcp-chosen"):
                seconds, crossed[medium] = run_ours(folder, lab, medium, CALLS[quick])
                times[medium] += seconds
            if peer is not None:
                times["Open MPI"].append(run_peer(lab, scratch, peer, CALLS[quick]))
    least = BYTES * 8 / (LINK_MBPS * 1e6)
    median = {scheme: statistics.median(values) for scheme, values in times.items() if values}
    for scheme, seconds in median.items():
        print(f"allreduce of 16 MB, 2 hosts x 4 ranks, {LINK_MBPS} Mbit/s: {scheme} {seconds:.3f} s, "
              f"{crossed.get(scheme, 0) / BYTES:.3f} of the data across the link", file=sys.stderr)
    name = "allreduce of 16 MB, 2 hosts x 4 ranks"
    yield check(f"{name}: bytes across a host's link, over the least", round(crossed["hosts"] / BYTES, 3),
                f"at most {MOST_BYTES_OVER_LEAST}", crossed["hosts"] <= MOST_BYTES_OVER_LEAST * BYTES)
    yield check(f"{name}: time, over that of the least bytes", round(median["hosts"] / least, 3),
                f"at most {MOST_OVER_LINK}", median["hosts"] <= MOST_OVER_LINK * least)
    flat = min(median["tcp"], median["tcp-chosen"])
    yield check(f"{name}: speed over the same ranks over TCP alone", round(flat / median["hosts"], 2), "above 1.5",
                flat > 1.5 * median["hosts"])
    if "Open MPI" in median:
        ratio = median["Open MPI"] / median["hosts"]
        yield check(f"{name}: speed over Open MPI", round(ratio, 2), f"at least {LEAST_OVER_PEER}",
                    ratio >= LEAST_OVER_PEER)
    else:
        print("Open MPI is not installed (deploy/setup --peers), so nothing was compared with it", file=sys.stderr)
