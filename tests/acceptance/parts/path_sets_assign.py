"""How much splitting flows helps where one link is dead or slow, and how long it takes: a permutation of the hosts of
32 leaves with 32 spines, assigned by `espalier assign`.
"""

import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile

SHAPE = ["--spines", "32", "--leaves", "32", "--hosts-per-leaf", "32"]
LEAVES = 32
HOSTS_PER_LEAF = 32
# The bound of any assignment whose parts can be split at will: the leaf's flows over what it has left.
CASES = {"healthy": (None, 1.0), "dead": ("down", 32 / 31), "half rate": ("half", 32 / 31.5)}
MOST_OVER_BOUND = 1.25
MOST_MILLISECONDS = 1.0  # of a fresh assignment of the 1,024 flows
MOST_MILLISECONDS_SPLIT = 5.0
REPETITIONS = 3  # the least time counts


def check(name, value, aim, ok):
    return {"name": f"assign, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/path_sets: {' '.join(command)} failed:\n" + (done.stdout + done.stderr)[-4000:])
    return done.stdout


def permutation(path):
    """Every host sends to one host of another leaf, and receives from one."""
    draw = random.Random(1)
    hosts = list(range(LEAVES * HOSTS_PER_LEAF))
    while True:
        targets = hosts[:]
        draw.shuffle(targets)
        for host in hosts:  # exchange those that stay on their leaf
            if targets[host] // HOSTS_PER_LEAF == host // HOSTS_PER_LEAF:
                other = draw.choice(hosts)
                targets[host], targets[other] = targets[other], targets[host]
        if all(targets[host] // HOSTS_PER_LEAF != host // HOSTS_PER_LEAF for host in hosts):
            break
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["flow", "job", "src", "dst", "bytes"])
        for host in hosts:
            writer.writerow([f"f{host}", "job", f"h{host}", f"h{targets[host]}", ""])


def damage(text, kind):
    """The topology with its first uplink down or at half rate."""
    topology = json.loads(text)
    if kind is None:
        return topology
    link = next(link for link in topology["links"] if "spine0" in (link["a"], link["b"])
                and "leaf0" in (link["a"], link["b"]))
    if kind == "down":
        link["state"] = "DOWN"
    else:
        link["gbps"] = f"{float(link['gbps']) / 2:g}"
    return topology


def compare(espalier, topology, flows, split, name, bound):
    command = [espalier, "assign", "--topology", str(topology), "--flows", str(flows), "--split", str(split), "--json"]
    answers = [json.loads(run(command)) for _ in range(REPETITIONS)]
    numerator, _, denominator = answers[0]["max_link_load"].partition("/")
    load = int(numerator) / int(denominator or 1)
    milliseconds = min(answer["microseconds"] for answer in answers) / 1000
    print(f"{name:<10} split {split:>2}: load {load:.3f}, {load / bound:.3f} of the bound, {milliseconds:.2f} ms",
          file=sys.stderr)
    if split >= 8 or name == "healthy":
        yield check(f"{name}, split {split}: load / fractional bound", round(load / bound, 3),
                    f"at most {MOST_OVER_BOUND}", load / bound <= MOST_OVER_BOUND)
    if name != "healthy":
        most = MOST_MILLISECONDS if split == 1 else MOST_MILLISECONDS_SPLIT
        yield check(f"{name}, split {split}: milliseconds", round(milliseconds, 2), f"at most {most:g}",
                    milliseconds <= most)


def checks(folder, seeds, quick):
    del seeds
    espalier = str(folder / "espalier")
    with tempfile.TemporaryDirectory() as place:
        flows = pathlib.Path(place) / "flows.csv"
        permutation(flows)
        made = run([espalier, "topology", "make", "leaf-spine", *SHAPE])
        for name, (kind, bound) in CASES.items():
            topology = pathlib.Path(place) / "fabric.json"
            topology.write_text(json.dumps(damage(made, kind)))
            for split in (1, 8) if quick else (1, 4, 8, 16):
                yield from compare(espalier, topology, flows, split, name, bound)
