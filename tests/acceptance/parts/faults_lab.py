"""What the controller says in a lab that is started by `lab up --steered`, as a newcomer would."""

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time

NAME = "faults"
SPINES, LEAVES = 2, 2


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


class Lab:
    """A steered lab of its own; use it in a `with` statement."""

    def __init__(self, folder, hosts_per_leaf, leaves=LEAVES, spines=SPINES):
        self.name = NAME
        self.program = str(folder / "espalier")
        self.shape = ["--spines", str(spines), "--leaves", str(leaves), "--hosts-per-leaf", str(hosts_per_leaf)]

    def run(self, *words, wanted=True):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if wanted and done.returncode != 0:
            raise RuntimeError(f"espalier {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def __enter__(self):
        answer = json.loads(self.run("lab", "up", "--name", NAME, "--link-mbps", "50", "--steered", "--json", *self.shape))
        self.controller = answer["controller_api"]
        self.scratch = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_):
        self.run("lab", "down", "--name", NAME, wanted=False)
        self.scratch.cleanup()

    def ask(self, *words):
        return json.loads(self.run(*words, "--json", "--controller", self.controller))

    def say(self, *words):
        return self.run(*words, "--controller", self.controller)

    def in_node(self, node, *words):
        self.run("lab", "exec", "--name", NAME, node, "--", *words)

    @contextlib.contextmanager
    def traffic(self, workload, seconds=90):
        """A workload with agents. Its result is that of `end()`."""
        path = os.path.join(self.scratch.name, "workload.json")
        with open(path, "w") as file:
            json.dump(workload, file)
        process = subprocess.Popen(
            [self.program, "lab", "traffic", "--name", NAME, "--workload", path, "--agents", "--json", "--time-limit",
             str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate()

    def wait(self, holds, seconds):
        """Seconds until it holds; None if never."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            if holds():
                return time.monotonic() - start
            time.sleep(0.3)
        return None


def flow(number, hosts_per_leaf):
    return {"id": f"f{number}", "source": f"h{number}", "destination": f"h{hosts_per_leaf + number}", "bytes": 10**9}


def first_flow(folder):
    begin = time.monotonic()
    with Lab(folder, 2) as lab:
        with lab.traffic({"flows": [flow(0, 2), flow(1, 2)]}):
            lab.wait(lambda: [f["status"] for f in lab.ask("flows")["flows"]] == ["ROUTED"] * 2, 55)
            states = [f["status"] for f in lab.ask("flows")["flows"]]
            yield check("the first TCP flows of one's own in a lab", f"{states} {time.monotonic() - begin:.1f} s after `lab up`",
                        "ROUTED within a minute", states == ["ROUTED"] * 2 and time.monotonic() - begin < 60)
            yield check("  the fields that tell why a flow waits", [f["cause"] for f in lab.ask("flows")["flows"]],
                        "empty for flows that are ROUTED", all(f["cause"] == "" for f in lab.ask("flows")["flows"]))
            yield from next_hop(lab)
        with lab.traffic({"flows": [flow(0, 2), flow(1, 2)]}):
            lab.wait(lambda: len(lab.ask("flows")["flows"]) == 2, 20)
            yield from spraying(lab)


def next_hop(lab):
    """The leaf's route loses one of its two next hops and gets it back; no link goes down."""
    one, other = ["nexthop", "via", "172.16.0.3", "dev", "s1"], ["nexthop", "via", "172.16.0.1", "dev", "s0"]
    vias = lambda: {f["via"] for f in lab.ask("flows")["flows"]}
    lab.wait(lambda: len(vias()) == 2, 20)
    lab.in_node("leaf0", "ip", "route", "replace", "10.1.0.0/16", *one)
    time.sleep(3)
    lab.in_node("leaf0", "ip", "route", "replace", "10.1.0.0/16", *one, *other)
    time.sleep(2)
    took = lab.wait(lambda: len(vias()) == 2, 30)
    yield check("a next hop is lost for 3 s and returns, and nobody says so", f"{vias()} after {took and took + 2} s",
                "on separate spines within 30 s", took is not None)


def spraying(lab):
    """leaf0 sends each packet of its hosts over either spine, at random."""
    lab.in_node("leaf0", "nft", 'add table ip spray; add chain ip spray pre { type filter hook prerouting priority mangle; }; '
                'add rule ip spray pre iifname "h*" meta mark set numgen random mod 2 map { 0 : 101, 1 : 102 }')
    for mark, via, device in ((101, "172.16.0.1", "s0"), (102, "172.16.0.3", "s1")):
        lab.in_node("leaf0", "ip", "route", "add", "10.1.0.0/16", "via", via, "dev", device, "table", str(mark))
        lab.in_node("leaf0", "ip", "rule", "add", "fwmark", str(mark), "lookup", str(mark))
    took = lab.wait(lambda: len(lab.ask("status")["sprayed_hosts"]) == 2, 60)
    status = lab.ask("status")
    reason = next((r for r in status["health_reasons"] if "spray" in r), "not said")
    yield check("a switch that sprays is found", f"{took and round(took, 1)} s, {reason}", "health degraded, with the switch",
                took is not None and status["health"] == "degraded" and "leaf0" in reason)
    yield check("  and nothing is called optimal", status["optimal"], "false", not status["optimal"])
    before = len(lab.ask("events", "-n", "1000")["events"])
    time.sleep(10)
    after = len(lab.ask("events", "-n", "1000")["events"])
    yield check("  events in 10 s", after - before, "at most 3", after - before <= 3)
    flows = lab.ask("flows")["flows"]
    yield check("  its flows", [(f["status"], f["cause"][:40]) for f in flows], "UNSTEERED, with the cause",
                all(f["status"] == "UNSTEERED" and "several paths" in f["cause"] for f in flows))


def rounds(folder, rings):
    """A job of several rings, each with a host of each leaf: the controller's round against the generator's log."""
    leaves = 4
    with Lab(folder, rings, leaves=leaves, spines=4) as lab:
        hosts = [[f"h{leaf * rings + ring}" for leaf in range(leaves)] for ring in range(rings)]
        job = {"id": "train", "epochs": 12, "compute_seconds": 0.5,
               "rings": [{"hosts": ring, "bytes": 2_000_000 + 150_000 * number} for number, ring in enumerate(hosts)]}
        with lab.traffic({"jobs": [job]}) as process:
            out, _ = process.communicate(timeout=180)
        logged = statistics.median(json.loads(out)["jobs"][0]["epoch_seconds"])
        shown = next((j for j in lab.ask("jobs")["jobs"] if j["job"] == "train"), None)
        value = shown["allreduce_seconds"] if shown else 0
        yield check(f"all-reduce of a job of {rings} ring{'s' if rings > 1 else ''}",
                    f"{value:.3f} s; the generator has logged {logged:.3f} s", "within 5 %", abs(value - logged) <= 0.05 * logged)
        ideal = shown["ideal_seconds"] if shown else 0
        yield check("  its ideal", f"{ideal:.3f} s", "above 0, and at most the time that it took", 0 < ideal <= 1.05 * value)


def groups(folder):
    """Two groups of one job over the same NICs, each with a rhythm of its own, as data and tensor groups have."""
    ring = lambda hosts, size: [{"source": a, "destination": b, "bytes": size}
                                for a, b in zip(hosts, hosts[1:] + hosts[:1])]
    group = lambda name, period, size, hosts: {
        "id": name, "job": "train", "iterations": 40, "period_seconds": period, "jitter_percent": 3,
        "phases": [{"name": name, "compute_seconds": 0.1, "bursts": ring(hosts, size)}]}
    with Lab(folder, 1, leaves=4, spines=4) as lab:
        both = [group("data", 1.3, 2_500_000, ["h0", "h1", "h2", "h3"]), group("tensor", 0.9, 1_000_000, ["h0", "h2", "h1", "h3"])]
        with lab.traffic({"phased_jobs": both}) as process:
            out, _ = process.communicate(timeout=180)
        logged = {job["job"]: statistics.median(i["phases"][0]["seconds"] for i in job["iterations"])
                  for job in json.loads(out)["phased_jobs"]}
        shown = next((j for j in lab.ask("jobs")["jobs"] if j["job"] == "train"), None)
        value, found = (shown["allreduce_seconds"], shown["round_groups"]) if shown else (0, 0)
        slowest = max(logged.values())
        yield check("groups of one job that share all NICs", found, 2, found == 2)
        yield check("  the round of the slower one", f"{value:.3f} s; the generator has logged {logged}", "within 5 %",
                    abs(value - slowest) <= 0.05 * slowest)


def steady(folder):
    """A job that alternates between phases: figures stay what they are between its bursts."""
    with Lab(folder, 2) as lab:
        burst = lambda source, destination: {"source": source, "destination": destination, "bytes": 1_500_000}
        job = {"id": "phased", "iterations": 60, "period_seconds": 1.0,
               "phases": [{"name": "a", "compute_seconds": 0.1, "bursts": [burst("h0", "h2"), burst("h1", "h3")]},
                          {"name": "b", "compute_seconds": 0.1, "bursts": [burst("h2", "h0"), burst("h3", "h1")]}]}
        with lab.traffic({"phased_jobs": [job]}):
            lab.wait(lambda: lab.ask("status")["load_of"] == "BUSIEST_PHASES", 40)
            seen = set()
            for _ in range(30):
                status = lab.ask("status")
                seen.add((status["max_load"], status["lower_bound"], status["load_of"]))
                time.sleep(0.1)
            yield check("load and bound in 30 looks at a job with bursts", sorted(seen), "the same in all, not 0",
                        len(seen) == 1 and next(iter(seen))[0] != "0")


def checks(folder, quick):
    yield from first_flow(folder)
    yield from steady(folder)
    yield from groups(folder)
    for rings in (1, 2) if quick else (1, 2, 6):
        yield from rounds(folder, rings)
