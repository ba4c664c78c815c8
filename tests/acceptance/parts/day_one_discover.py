"""What agents discover of the fabric of a lab without any file, and how many probes a large fabric needs."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

SHAPES = {
    "two tiers": ["--spines", "4", "--leaves", "4", "--hosts-per-leaf", "2"],
    "three tiers": ["--pods", "4", "--leaves", "2", "--spines", "2", "--cores", "4", "--hosts-per-leaf", "1"],
}
LARGE = "Discovery.NeedsFewProbesForALargeFabric"  # 64 x 32 switches, 2,048 hosts
PROBES_AIM, BUSIEST_AIM = 57_000, 984


def check(name, value, aim, ok):
    return {"name": f"discover, {name}", "value": value, "aim": aim, "ok": bool(ok)}


class DiscoveredLab:
    """A steered lab of its own; use it in a `with` statement."""

    def __init__(self, folder, name, shape):
        self.espalier, self.name, self.shape = str(folder / "espalier"), name, shape

    def run(self, *words):
        done = subprocess.run([self.espalier, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0 and "namespaces" in done.stderr:
            print(f"skipped: {done.stderr.strip()}", file=sys.stderr)
            sys.exit(77)
        if done.returncode != 0:
            raise RuntimeError(f"espalier {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def __enter__(self):
        up = json.loads(self.run("lab", "up", "--name", self.name, "--steered", "--icmp-limits", "off", "--json",
                                 *self.shape))
        self.controller, self.topology = up["controller_api"], up["topology"]
        return self

    def __exit__(self, *_):
        self.run("lab", "down", "--name", self.name)

    def discover(self, *options):
        """Discovers, and again (at most twice) if an agent of this busy machine was away in the meantime."""
        for _ in range(3):
            found = json.loads(self.run("topology", "discover", "--controller", self.controller, "--json", *options))
            if not any("is not connected" in words for words in found["missing"]):
                break
        return found


def changes(found):
    return ", ".join(f"{one['id']} {one['change']}" for one in found["changes"]) or "none"


def without_files(lab, what):
    """Names are made of addresses; nodes, links and roles are those of the lab."""
    with tempfile.TemporaryDirectory() as scratch:
        made_file = pathlib.Path(scratch) / "made.json"
        found = lab.discover("-o", str(made_file))
        lab.run("topology", "check", str(made_file))
        made, truth = json.loads(made_file.read_text()), json.loads(pathlib.Path(lab.topology).read_text())
    doubts = found["contradictions"] + found["missing"]
    yield check(f"{what}, contradictions and missing facts", "; ".join(doubts) or "none", "none", not doubts)
    yield check(f"{what}, confidence", found["confidence"], ">= 0.99", found["confidence"] >= 0.99)
    counts = [f"{len(one['nodes'])} nodes, {len(one['links'])} links, roles "
              + " ".join(sorted(node["role"] for node in one["nodes"] if node["kind"] == "SWITCH"))
              for one in (made, truth)]
    yield check(f"{what}, found by {found['probes']} probes", *counts, counts[0] == counts[1])


def with_the_truth(lab, what):
    """With the names of the true file nothing differs; a link that is lost does, until it is back."""
    found = changes(lab.discover("--compare", lab.topology))
    yield check(f"{what}, differences from the true file", found, "none", found == "none")
    links = json.loads(pathlib.Path(lab.topology).read_text())["links"]
    lost = next(link["id"] for link in links if link["id"].startswith("leaf0--"))
    lab.run("lab", "fail", lost, "--name", lab.name)
    found = changes(lab.discover("--fresh", "--compare", lab.topology))
    yield check(f"{what}, differences without {lost}", found, f"{lost} REMOVED", found == f"{lost} REMOVED")
    lab.run("lab", "restore", lost, "--name", lab.name)
    found = changes(lab.discover("--fresh", "--compare", lab.topology))
    yield check(f"{what}, differences with it again", found, "none", found == "none")


def large(folder):
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        done = subprocess.run([str(folder / "discovery_test"), f"--gtest_filter={LARGE}", f"--gtest_output=json:{report}"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            yield check("64 x 32 switches, simulated", done.stdout[-400:], "found", False)
            return
        (case,) = json.loads(report.read_text())["testsuites"][0]["testsuite"]
    probes, busiest = int(case["probes"]), int(case["busiest_switch"])
    yield check("64 x 32 switches, simulated, probes", probes, f"<= {PROBES_AIM}", probes <= PROBES_AIM)
    yield check("64 x 32 switches, simulated, answers of the busiest", busiest, f"<= {BUSIEST_AIM}",
                busiest <= BUSIEST_AIM)


def checks(folder, quick):
    yield from large(folder)
    for number, (what, shape) in enumerate(SHAPES.items()):
        if quick and number > 0:
            return
        with DiscoveredLab(folder, f"found{number}x{os.getpid()}", shape) as lab:
            yield from without_files(lab, what)
            yield from with_the_truth(lab, what)
