"""What assigned paths are worth packet by packet, judged by ns-3: a permutation between leaves and rings of jobs, by
`espalier assign|simulate --export ns3` and the study packets_study (tests/studies/packets)."""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

TARGETS = ["espalier", "packets_study"]
GBPS = 100
# Options of `espalier assign`.
SCHEMES = {
    "ECMP, 1 queue pair": ["--algorithm", "ecmp"],
    "ECMP, 4 queue pairs": ["--algorithm", "ecmp", "--split", "4"],
    "ECMP, 16 queue pairs": ["--algorithm", "ecmp", "--split", "16"],
    "assigned, 1 path": [],
    "assigned, 4 paths": ["--split", "4"],
    "assigned, 4 paths, exact shares": ["--split", "4", "--shares", "exact"],
    "assigned, 16 paths": ["--split", "16"],
}
DAMAGES = {"healthy": {}, "dead": {"state": "DOWN"}, "half rate": {"gbps": f"{GBPS / 2:g}"}}


def output_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/truth: {' '.join(map(str, command))}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


class Fabric:
    """Four leaves with as many uplinks as hosts. A damage is that of the first uplink of the first leaf."""

    def __init__(self, build, folder, per_leaf):
        self.build, self.folder, self.per_leaf = build, pathlib.Path(folder), per_leaf
        self.hosts = 4 * per_leaf
        text = output_of([build / "espalier", "topology", "make", "leaf-spine", "--spines", per_leaf, "--leaves", 4,
                    "--hosts-per-leaf", per_leaf, "--host-gbps", GBPS, "--fabric-gbps", GBPS])
        for damage, change in DAMAGES.items():
            topology = json.loads(text)
            next(link for link in topology["links"] if {link["a"], link["b"]} == {"leaf0", "spine0"}).update(change)
            self.topology(damage).write_text(json.dumps(topology), encoding="utf-8")

    def topology(self, damage):
        return self.folder / f"{damage}.json"

    def permutation(self, seed, size):
        """Every host sends to one of another leaf, and receives from one."""
        chance = random.Random(seed)
        while True:
            targets = chance.sample(range(self.hosts), self.hosts)
            for host in range(self.hosts):  # exchange those that stay on their leaf
                if targets[host] // self.per_leaf == host // self.per_leaf:
                    other = chance.randrange(self.hosts)
                    targets[host], targets[other] = targets[other], targets[host]
            if all(targets[host] // self.per_leaf != host // self.per_leaf for host in range(self.hosts)):
                break
        path = self.folder / f"flows{seed}.csv"
        path.write_text("flow,job,src,dst,bytes\n" + "".join(
            f"f{host},job,h{host},h{target},{size}\n" for host, target in enumerate(targets)), encoding="utf-8")
        return path

    def replay(self, damage, table):
        return json.loads(output_of([self.build / "packets_study", "--topology", self.topology(damage), "--table", table,
                               "--json"]))

    def assigned(self, damage, flows, options, seed):
        """(load of the most loaded link, what the packets say)"""
        table = self.folder / "paths.csv"
        plan = json.loads(output_of([self.build / "espalier", "assign", "--topology", self.topology(damage), "--flows", flows,
                               "--seed", seed, "--json", "--export", "ns3", "-o", table, *options]))
        over, _, under = plan["max_link_load"].partition("/")
        return int(over) / int(under or 1), self.replay(damage, table)

    def rings(self, seed, size):
        """Two jobs of four rings each, of four hosts at random."""
        chance = random.Random(seed)
        hosts = [f"h{host}" for host in chance.sample(range(self.hosts), 32)]
        jobs = [{"id": f"job{job}", "rings": [{"hosts": hosts[16 * job + ring:16 * job + 16:4], "bytes": size}
                                              for ring in range(4)]} for job in range(2)]
        path = self.folder / f"jobs{seed}.json"
        path.write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
        return path

    def simulated(self, jobs, algorithm):
        table = self.folder / "messages.csv"
        output_of([self.build / "espalier", "simulate", "--topology", self.topology("healthy"), "--jobs", jobs,
             "--algorithm", algorithm, "--export", "ns3", "-o", table])
        return self.replay("healthy", table)


def measure(fabric, seeds, size):
    """{(scheme, damage): [(load, what the packets say) of each seed]}"""
    cases = {}
    for seed in range(1, seeds + 1):
        flows = fabric.permutation(seed, size)
        for damage in DAMAGES:
            for scheme, options in SCHEMES.items():
                cases.setdefault((scheme, damage), []).append(fabric.assigned(damage, flows, options, seed))
            print(f"  seed {seed}, {damage}: done", file=sys.stderr)
    return cases


def slowest(cases, scheme, damage="healthy"):
    return [packets["slowest"] for _, packets in cases[scheme, damage]]


def print_table(cases):
    print("| | " + " | ".join(DAMAGES) + " | longest queue, healthy |\n" + "|---" * (len(DAMAGES) + 2) + "|",
          file=sys.stderr)
    for scheme in SCHEMES:
        times = [", ".join(f"{value:.2f}" for value in slowest(cases, scheme, damage)) for damage in DAMAGES]
        queue = max(packets["longest_queue_bytes"] for _, packets in cases[scheme, "healthy"])
        print(f"| {scheme} | {' | '.join(times)} | {queue / 1000:.0f} kB |", file=sys.stderr)


def check_cases(report, cases):
    def at_least(name, values, aim):
        report.add(f"packets: {name}", round(min(values), 2), f">= {aim}", min(values) >= aim)

    def at_most(name, values, aim):
        report.add(f"packets: {name}", round(max(values), 3), f"<= {aim}", max(values) <= aim)

    one = slowest(cases, "assigned, 1 path")
    at_most("slowest flow on assigned paths, relative to the flow alone", one, 1.05)
    for pairs, aim in (("1 queue pair", 2), ("16 queue pairs", 1.3)):
        others = slowest(cases, f"ECMP, {pairs}")
        at_least(f"slowest flow by ECMP with {pairs}, relative to assigned paths",
                 [other / mine for other, mine in zip(others, one)], aim)
    for damage in ("dead", "half rate"):
        at_most(f"a link {damage}: slowest flow on 16 assigned paths, relative to one",
                [many / few for many, few in zip(slowest(cases, "assigned, 16 paths", damage),
                                                 slowest(cases, "assigned, 1 path", damage))], 0.7)
    at_most("difference between the load that is told and the slowest flow, in parts of the load",
            [abs(packets["slowest"] / load - 1) for case in cases.values() for load, packets in case], 0.25)
    at_most("lost packets", [packets["dropped_packets"] for case in cases.values() for _, packets in case], 0)


def run(report, build, seeds, per_leaf, size):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fabric = Fabric(build, folder, per_leaf)
        cases = measure(fabric, seeds, size)
        rings = {algorithm: [fabric.simulated(fabric.rings(seed, 2 * size), algorithm)["last_seconds"]
                             for seed in range(1, seeds + 1)] for algorithm in ("ecmp", "optimal")}
    print_table(cases)
    check_cases(report, cases)
    gains = [ecmp / optimal for ecmp, optimal in zip(*rings.values())]
    report.add("packets: time of two jobs of rings by ECMP, relative to assigned paths", round(min(gains), 2), ">= 1.3",
               min(gains) >= 1.3)
    milliseconds = [", ".join(f"{1000 * seconds:.2f}" for seconds in times) for times in rings.values()]
    print(f"rings of two jobs: {milliseconds[0]} ms by ECMP, {milliseconds[1]} ms on assigned paths\n"
          f"{len(cases) * seeds + 2 * seeds} replays in {time.monotonic() - begin:.0f} s", file=sys.stderr)
