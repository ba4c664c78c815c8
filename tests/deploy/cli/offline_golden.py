#!/usr/bin/env python3
"""Compares what the espalier tool makes of fixed inputs with what it made when they were recorded.

usage: offline_golden.py ESPALIER [--write]

Topologies, forests, programs, assignments and simulations are compared byte for byte by their
digests, which golden/offline.json holds. Changes of the code that are to change no behaviour
change none of them; --write records them again, for changes that are to.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FLOODNS = HERE.parents[1] / "data/floodns/concurrent_jobs_2"

TOPOLOGIES = {
    "leaf": "leaf-spine --spines 4 --leaves 4 --hosts-per-leaf 4",
    "paper": "leaf-spine --spines 32 --leaves 64 --hosts-per-leaf 32",
    "tree": "fat-tree --k 4",
    "a100": "a100 --boxes 2",
    "h100": "h100 --boxes 4",
    "mi250": "mi250 --boxes 1",
    "half": "mi250-half --boxes 2",
    "rails": "rails --boxes 4 --rails 4",
    "ring": "ring --nodes 6",
    "torus": "torus --dims 3x4",
    "cube": "hypercube --dimension 3",
}
PROGRAMS = [
    "allgather-bruck --ranks 5", "allgather-ring --ranks 4", "allreduce-all-pairs --ranks 4",
    "allreduce-bcube --ranks 8 --base 2", "allreduce-double-binary-tree --ranks 6 --pieces 3",
    "allreduce-doubling --ranks 8", "allreduce-halving-doubling --ranks 6",
    "allreduce-hierarchical --ranks 8 --ranks-per-node 4", "allreduce-ring --ranks 4",
    "allreduce-ring-chunked --ranks 4 --pieces 2", "alltoall-direct --ranks 4",
    "alltoall-two-step --ranks 8 --ranks-per-node 4", "alltonext --ranks 8 --ranks-per-node 4",
    "barrier-all-to-all --ranks 4", "barrier-all-to-one --ranks 4", "broadcast-binomial --ranks 6",
    "broadcast-one-to-all --ranks 4 --root 1", "broadcast-pipelined --ranks 4 --pieces 3",
    "reduce-binomial --ranks 6 --root 2", "reduce-scatter-halving-doubling --ranks 8",
    "reduce-scatter-ring --ranks 4",
]
FORESTS = [name for name in TOPOLOGIES if name != "paper"]

TIMES = ("microseconds", "microseconds_per_assignment", "seconds", "wall_seconds")


def commands(folder):
    """Name of an output, command that writes it to standard output."""
    for name, words in TOPOLOGIES.items():
        yield f"{name}.json", ["topology", "make", *words.split()]
    for name in FORESTS:
        topology = ["--topology", f"{folder}/{name}.json"]
        for collective in ("allgather", "allreduce"):
            for form in ("json", "program", "msccl-xml"):
                yield (f"forest {name} {collective} {form}",
                       ["forest", *topology, "--collective", collective, "--max-trees-per-root",
                        "4", "--format", form])
        yield (f"forest {name} general", ["forest", *topology, "--no-symmetry", "--format",
                                          "summary", "--max-trees-per-root", "2"])
    yield ("forest leaf multicast", ["forest", "--topology", f"{folder}/leaf.json", "--collective",
                                     "allreduce", "--multicast", "--json"])
    for words in PROGRAMS:
        yield f"program {words}", ["program", "make", *words.split()]
    flows = ["flow,job,src,dst,bytes"]
    flows += [f"f{i},j{i % 3},h{i},h{(i + 4 + i % 3) % 16},{1000 * i + 7}" for i in range(16)]
    pathlib.Path(folder, "flows.csv").write_text("\n".join(flows) + "\n")
    for algorithm in ("optimal", "greedy", "annealing", "ecmp"):
        yield (f"assign {algorithm}", ["assign", "--topology", f"{folder}/leaf.json", "--flows",
                                       f"{folder}/flows.csv", "--algorithm", algorithm, "--json"])
    yield ("simulate", ["simulate", "--topology", f"{folder}/paper.json", "--jobs",
                        str(FLOODNS / "ring_size_8"), "--algorithm", "optimal,greedy,ecmp",
                        "--json"])


def without_times(text):
    """What the processor took is not the same twice."""
    try:
        value = json.loads(text)
    except ValueError:
        return text

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items()
                    if key not in TIMES}
        return [strip(item) for item in value] if isinstance(value, list) else value
    return json.dumps(strip(value))


def main():
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__)
        return 0 if "--help" in sys.argv else 2
    espalier, recorded = sys.argv[1], HERE / "golden/offline.json"
    digests = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, words in commands(folder):
            done = subprocess.run([espalier, *words], capture_output=True, stdin=subprocess.DEVNULL)
            # What goes well may tell of its progress on standard error, where it takes long.
            text = done.stdout.decode(errors="replace")
            if done.returncode != 0:
                text += done.stderr.decode(errors="replace")
            if name.endswith(".json"):
                pathlib.Path(folder, name).write_bytes(done.stdout)
            text = without_times(text.replace(folder, "."))
            digests[name] = f"{done.returncode} {hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if "--write" in sys.argv:
        recorded.write_text(json.dumps(digests, indent=1) + "\n")
        print(f"{recorded} was written: {len(digests)} answers")
        return 0
    expected = json.loads(recorded.read_text())
    changed = [name for name in sorted({*digests, *expected})
               if digests.get(name) != expected.get(name)]
    for name in changed:
        print(f"changed: {name}: {digests.get(name)}, it was {expected.get(name)}")
    print(f"{len(digests) - len(changed)} of {len(expected)} answers are as they were")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
