"""From the network to checked data: for 17 networks and three collectives, the schedule is made, verified and
lowered to a program, the program is verified by itself, and run between processes that check their results.
"""

import json
import pathlib
import subprocess
import tempfile

TARGETS = ["espalier"]

NETWORKS = ["Complete(2)", "Complete(5)", "Bipartite(3)", "BiRing(2, 6)", "UniRing(1, 5)", "Circulant(11)",
            "DirectedCirculant(3)", "GenKautz(2, 9)", "DeBruijn(2, 3)", "Kautz(2, 1)", "Hamming(2, 3)",
            "Torus(3, 2, 2)", "DistanceRegular(10)", "Line(Complete(3))", "Degree(UniRing(1, 4), 2)",
            "Power(UniRing(1, 3), 2)", "Bidirectional(Line(Bipartite(2)))"]
COLLECTIVES = ["allgather", "reduce-scatter", "allreduce"]
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


def checks(folder, quick):
    del quick
    with tempfile.TemporaryDirectory() as name:
        yield from pairs(folder / "espalier", pathlib.Path(name))
