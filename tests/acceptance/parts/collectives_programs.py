"""From the network to checked data: for 17 networks and three collectives, the schedule is made, verified and
lowered to a program, the program is verified by itself, and run between processes that check their results.
Execution plans of MSCCL++ are written, read, verified and run the same way, and refused without any one of
their operations.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

TARGETS = ["espalier"]

NETWORKS = ["Complete(2)", "Complete(5)", "Bipartite(3)", "BiRing(2, 6)", "UniRing(1, 5)", "Circulant(11)",
            "DirectedCirculant(3)", "GenKautz(2, 9)", "DeBruijn(2, 3)", "Kautz(2, 1)", "Hamming(2, 3)",
            "Torus(3, 2, 2)", "DistanceRegular(10)", "Line(Complete(3))", "Degree(UniRing(1, 4), 2)",
            "Power(UniRing(1, 3), 2)", "Bidirectional(Line(Bipartite(2)))"]
COLLECTIVES = ["allgather", "reduce-scatter", "allreduce"]
ALGORITHMS = ["allreduce-ring", "allreduce-halving-doubling", "allreduce-doubling", "allgather-ring",
              "reduce-scatter-ring", "alltoall-direct", "broadcast-binomial"]
RANKS_PER_NODE = [0, 2]  # of 4 ranks: all memory channels, or port channels between two nodes
BYTES = 720720  # which all of these numbers of ranks divide into whole elements


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


def attempt(espalier, *words):
    """The words that a command printed, or what went wrong, with whether it succeeded."""
    done = subprocess.run([str(espalier), *map(str, words)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr.strip()


def run_pair(espalier, scratch, network, collective):
    """The first step that fails, in words, or nothing."""
    topology, schedule, program = (scratch / name for name in ("net.json", "schedule.json", "program.json"))
    make = ["schedule", "make", "construction", "--construction", network, "--topology", topology,
            "--collective", collective]
    for words in (["topology", "make", "direct", network, "-o", topology], [*make, "-o", schedule],
                  ["schedule", "verify", "--topology", topology, schedule],
                  [*make, "--format", "program", "-o", program], ["program", "verify", program]):
        done, text = attempt(espalier, *words)
        if not done:
            return text
    done, text = attempt(espalier, "program", "run", program, "-b", BYTES, "-n", "1", "--json")
    if not done:
        return text
    found = json.loads(text)
    return "" if found["errors"] == 0 else f"{found['errors']} wrong elements"


def pairs(espalier, scratch):
    right = 0
    for network in NETWORKS:
        failures = []
        for collective in COLLECTIVES:
            failure = run_pair(espalier, scratch, network, collective)
            if failure:
                failures.append(f"{collective}: {failure}")
            else:
                right += 1
        yield check(f"{network}: schedule, program, proof and run of {', '.join(COLLECTIVES)}",
                    "; ".join(failures) or "right data", "right data", not failures)
    yield check("pairs of network and collective with right data", right, "at least 50", right >= 50)


def plans(espalier, scratch):
    plan = scratch / "plan.json"
    right = 0
    for algorithm in ALGORITHMS:
        for per_node in RANKS_PER_NODE:
            done, text = attempt(espalier, "program", "make", algorithm, "--ranks", 4, "--ranks-per-node",
                                 per_node, "--to", "mscclpp-json", "-o", plan)
            if done:
                done, text = attempt(espalier, "program", "run", plan, "-b", BYTES, "-n", "1", "--json")
            if not done:
                print(f"{algorithm}, {per_node} ranks a node: {text}", file=sys.stderr)
            right += done and json.loads(text)["errors"] == 0
    count = len(ALGORITHMS) * len(RANKS_PER_NODE)
    yield check("execution plans written, read, proved and run", right, count, right == count)


def broken_plans(espalier, scratch, quick):
    """Plans without one operation: which of them are refused, by kind of violation."""
    plan, broken = scratch / "plan.json", scratch / "broken.json"
    attempt(espalier, "program", "make", "allreduce-ring", "--ranks", 2 if quick else 4, "--to", "mscclpp-json",
            "-o", plan)
    whole = json.loads(plan.read_text())
    kinds = {}
    for rank, gpu in enumerate(whole["gpus"]):
        for block, content in enumerate(gpu["threadblocks"]):
            for number, operation in enumerate(content["ops"]):
                if operation["name"] == "nop":
                    continue
                changed = json.loads(plan.read_text())
                del changed["gpus"][rank]["threadblocks"][block]["ops"][number]
                broken.write_text(json.dumps(changed))
                done = subprocess.run([str(espalier), "program", "verify", str(broken), "--json"],
                                      capture_output=True, text=True, stdin=subprocess.DEVNULL)
                kind = json.loads(done.stdout)["violation"]["kind"] or "accepted"
                kinds[kind] = kinds.get(kind, 0) + 1
    yield check("plans without one of their operations, by violation", kinds, "none accepted",
                kinds and "accepted" not in kinds)


def orders(espalier, scratch):
    """Ranks of a fat-tree in an order that leaves the leaf at every step of a ring."""
    topology, ranks = scratch / "fabric.json", scratch / "ranks.json"
    attempt(espalier, "topology", "make", "fat-tree", "--k", 8, "-o", topology)
    ranks.write_text(json.dumps([f"h{host}" for place in range(4) for host in range(place, 128, 4)]))
    for algorithm, per_node in (("allreduce-ring-chunked", 0), ("allreduce-hierarchical", 4)):
        done, text = attempt(espalier, "job", "advise", ranks, "--topology", topology, "--algorithm", algorithm,
                             "--ranks-per-node", per_node, "--json")
        found = json.loads(text) if done else {"levels": [], "optimal": False}
        levels = {row["level"]: row for row in found["levels"]}
        row = levels.get("leaf", {"present_bytes": 0, "best_bytes": 1, "least_bytes": 0})
        yield check(f"order of 128 ranks, {algorithm}: bytes that leave a leaf, present / best", round(
            row["present_bytes"] / row["best_bytes"], 2), "above 1, with the best proved to be optimal",
            row["present_bytes"] > row["best_bytes"] == row["least_bytes"] and found["optimal"])


def checks(folder, quick):
    with tempfile.TemporaryDirectory() as name:
        yield from pairs(folder / "espalier", pathlib.Path(name))
        yield from plans(folder / "espalier", pathlib.Path(name))
        yield from broken_plans(folder / "espalier", pathlib.Path(name), quick)
        yield from orders(folder / "espalier", pathlib.Path(name))
