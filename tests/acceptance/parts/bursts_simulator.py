"""The part of tests/acceptance/bursts that simulates whole training jobs.

Plays jobs of BLOOM, GPT-3 and LLaMA2-70B, pipelines, trees and all-to-alls on the fabric of the paper
(64 leaves with 32 hosts each), oversubscribed 1:1, 2:1 and 4:1. Compares plain ECMP, an assignment for
all open connections, one for the phases of jobs, and a new optimum for every phase (`optimal`), which
moves connections at will. Figures are simulated, so that they do not depend on the machine, apart from
the times of assignments.
"""

import json
import subprocess
import sys
import tempfile
from statistics import median

TARGETS = ["espalier"]

LEAVES, HOSTS_PER_LEAF = 64, 32
SCHEMES = ("ecmp", "connections", "phases", "optimal", "ideal")
ROW = "{:>4} {:<17} {:<11} {:<10} {:>13} {:>7} {:>12} {:>13} {:>11} {:>9} {:>14}"

# One assignment serves all phases of a job, so that it communicates as fast as with a new optimum in
# every phase, up to this factor.
MOST_OF_OPTIMUM = 1.01
# Jobs that meet in any of their phases: median of placements, by oversubscription.
MOST_OF_OPTIMUM_TOGETHER = {1: 1.01, 2: 1.15, 4: 1.05}
# What counts as no loss against an assignment for all connections.
LEAST_OF_CONNECTIONS = 0.99

# Name, options, whether it is one job.
WORKLOADS = [
    ("bloom", [], True),
    ("gpt3", [], True),
    ("llama", [], True),
    ("gpt3", ["--nics-per-host", "1"], True),  # tensor groups over the fabric
    ("pipeline", ["--ranks", "512"], True),
    ("tree", ["--ranks", "512"], True),
    ("all-to-all", [], True),
    ("bloom,gpt3,llama", [], False),
]
QUICK_WORKLOADS = [WORKLOADS[2], WORKLOADS[5], WORKLOADS[6], WORKLOADS[7]]


def run(folder, *words):
    command = [str(folder / "espalier"), *words]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/bursts: {' '.join(command)} failed:\n" + (done.stdout + done.stderr)[-4000:])
    return done.stdout


def simulate(folder, topology, workload, options, seed):
    """The runs of one placement by scheme, and under "text" what the tool says of phases."""
    text = run(folder, "simulate", "--topology", topology, "--workload", workload, *options, "--seed",
               str(seed), "--algorithm", ",".join(SCHEMES), "--json")
    simulated = json.loads(text)
    runs = {row["algorithm"]: row for row in simulated["runs"]}
    return {**runs, "text": simulated["phases_against_connections"]["text"]}


def ratios(runs, scheme, other):
    """Communication of each job under a scheme over that under another one."""
    return [job["allreduce_seconds"] / reference["allreduce_seconds"]
            for job, reference in zip(runs[scheme]["jobs"], runs[other]["jobs"])]


def ports_changed(runs, scheme):
    """Of all jobs, in one epoch of each."""
    return sum(job["ports_changed_per_epoch"] for job in runs[scheme]["jobs"])


def print_rows(oversubscription, name, placements):
    """Medians over the placements; of the worst link, the worst of them."""
    for scheme in SCHEMES[:-1]:
        rows = [runs[scheme] for runs in placements]
        worst = max(rows, key=lambda row: row["worst_overlap_load"] / max(1, row["worst_overlap_lower_bound"]))
        factors = zip(*(ratios(runs, scheme, "ideal") for runs in placements))
        for jobs, factor in zip(zip(*(row["jobs"] for row in rows)), factors):
            def middle(key):
                return median(job[key] for job in jobs)
            print(ROW.format(f"{oversubscription}:1", name, scheme, jobs[0]["model"],
                             f"{middle('allreduce_seconds'):.4f} s", f"{median(factor):.2f}",
                             f"{middle('slowest_flow_gbps'):.1f} G", f"{middle('ports_changed_per_epoch'):.1f}",
                             f"{median(row['assignments'] for row in rows):g}",
                             f"{median(row['microseconds_per_assignment'] for row in rows):.0f} us",
                             f"{worst['worst_overlap_load']:g} / {worst['worst_overlap_lower_bound']:g}"),
                  file=sys.stderr, flush=True)


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


def above_bound(placements):
    return max(runs["phases"]["worst_overlap_load"] - runs["phases"]["worst_overlap_lower_bound"]
               for runs in placements)


def judge_single(case, placements):
    """One job: one assignment is as good as a new one in every phase, and no port changes."""
    worst = max(max(ratios(runs, "phases", "optimal")) for runs in placements)
    yield check(f"{case}: phases / fresh optimum", round(worst, 3), f"at most {MOST_OF_OPTIMUM}",
                worst <= MOST_OF_OPTIMUM)
    ports = max(ports_changed(runs, "phases") for runs in placements)
    yield check(f"{case}: ports changed per period", ports, "0", ports == 0)
    yield check(f"{case}: worst link above its bound", above_bound(placements), "0",
                above_bound(placements) == 0)


def judge_together(case, oversubscription, placements):
    """Jobs that drift against each other: few changes of ports, and close to the optimum of the moment."""
    slowest = median(max(ratios(runs, "phases", "optimal")) for runs in placements)
    most = MOST_OF_OPTIMUM_TOGETHER[oversubscription]
    yield check(f"{case}: slowest job, phases / fresh optimum", round(slowest, 3), f"at most {most}",
                slowest <= most)
    share = max(ports_changed(runs, "phases") / max(1, ports_changed(runs, "optimal"))
                for runs in placements)
    yield check(f"{case}: ports changed / fresh optimum", round(share, 3), "at most 0.1", share <= 0.1)
    yield check(f"{case}: worst link above its bound", above_bound(placements), "0",
                above_bound(placements) == 0)


def checks(folder, seeds, quick):
    """Training jobs in the simulator: phases against connections and against a fresh optimum."""
    print(ROW.format("over", "workload", "scheme", "job", "communication", "/ideal", "slowest flow",
                     "ports changed", "assignments", "each", "worst / bound"), file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        for oversubscription in (1, 4) if quick else (1, 2, 4):
            topology = f"{scratch}/fabric{oversubscription}.json"
            run(folder, "topology", "make", "leaf-spine", "--spines", str(HOSTS_PER_LEAF // oversubscription),
                "--leaves", str(LEAVES), "--hosts-per-leaf", str(HOSTS_PER_LEAF), "-o", topology)
            for workload, options, is_single in QUICK_WORKLOADS if quick else WORKLOADS:
                name = workload + ("*" if "--nics-per-host" in options else "")
                placements = [simulate(folder, topology, workload, options, seed)
                              for seed in range(1, seeds + 1)]
                print_rows(oversubscription, name, placements)
                case = f"simulator, {name} {oversubscription}:1"
                gain = min(min(ratios(runs, "connections", "phases")) for runs in placements)
                yield check(f"{case}: connections / phases", round(gain, 3), f"at least {LEAST_OF_CONNECTIONS}",
                            gain >= LEAST_OF_CONNECTIONS)
                if workload == "all-to-all":
                    says_so = all("gain nothing" in runs["text"] and "one phase" in runs["text"] for runs in placements)
                    yield check(f"{case}: says that phases gain nothing", says_so, "true", says_so)
                if is_single:
                    yield from judge_single(case, placements)
                else:
                    yield from judge_together(case, oversubscription, placements)
