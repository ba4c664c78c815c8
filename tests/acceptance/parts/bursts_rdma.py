"""Unmodified programs that keep their queue pairs and send in bursts, in the RDMA machine (docs/rdma.md): what the
agent tells of them against the packets on the wire, and what the controller learns. The tests of tests/rdma measure
it; this reads their figures.
"""

import json
import pathlib
import subprocess
import sys

TARGETS = ["rdma_test"]

ROOT = pathlib.Path(__file__).resolve().parents[3]
CANNOT_RUN = 77
SECONDS = 600  # until the machine is killed
MOST_PERIODS = 10
FEWEST_READY = 0.95  # of the bursts after the phases are learned
MOST_START_ERROR = 0.1  # of the period, p90


def check(name, value, aim, ok):
    return {"name": f"RDMA, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def measure(folder, quick):
    """The figures that the tests print, by their first word; none if the machine cannot run here."""
    tests = "RdmaBursts.EdgesOfFio*:RdmaBurstLearning.*Fio" if quick else "RdmaBurst*"
    command = [str(ROOT / "deploy/lab/rdma/start"), "--time-limit", str(SECONDS), "--", str(folder / "rdma_test"),
               f"--gtest_filter={tests}"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == CANNOT_RUN:
        print(done.stderr.strip(), file=sys.stderr)
        return None
    found = {"edges": [], "learning": []}
    for line in done.stdout.splitlines():
        kind, mark, rest = line.partition(" {")
        if mark and kind in found:
            found[kind].append(json.loads("{" + rest))
    if not found["edges"] or not found["learning"]:
        sys.exit("tests/acceptance/bursts: rdma_test printed no figures:\n" + (done.stdout + done.stderr)[-4000:])
    return found


def edges(row):
    print(f"{row['program']}: {row['flows']} flows of {row['queue_pairs']} queue pairs; {row['pauses']} pauses told; "
          f"busy edges p50 {row['busy_p50_us']} us, p99 {row['busy_p99_us']} us; "
          f"idle edges p50 {row['idle_p50_us']} us, p99 {row['idle_p99_us']} us", file=sys.stderr)
    name = row["program"]
    yield check(f"{name}: clear pauses that the agent missed", f"{row['missed']} of {row['clear']}", "0",
                row["clear"] > 0 and row["missed"] == 0)
    yield check(f"{name}: flows whose queue pairs count as one", f"{row['grouped']} of {row['flows']}", "all",
                row["grouped"] == row["flows"] > 0)


def learning(row):
    ready = row["ready"] / row["bursts"] if row["bursts"] else 0
    print(f"{row['program']}: period {row['period_seconds']} s, learned after {row['periods_until_learned']} periods; "
          f"{row['ready']} of {row['bursts']} bursts on the right ports before their first byte; {row['packets']} packets at the spines on "
          f"{row['ways']} chosen ways, {row['strays']} on others", file=sys.stderr)
    name = row["program"]
    yield check(f"{name}: periods until the phases are learned", row["periods_until_learned"],
                f"at most {MOST_PERIODS}", 0 <= row["periods_until_learned"] <= MOST_PERIODS)
    yield check(f"{name}: share of bursts from then on whose ports were right before their first byte",
                round(ready, 3), f"at least {FEWEST_READY}", ready >= FEWEST_READY)
    yield check(f"{name}: |predicted - real| start as a part of the period, p90", row["start_error_p90"],
                f"at most {MOST_START_ERROR}", row["start_error_p90"] <= MOST_START_ERROR)
    yield check(f"{name}: packets on other ports or spines than decided", row["strays"], "0",
                row["packets"] > 0 and row["strays"] == 0)


def checks(folder, seeds, quick):
    del seeds
    found = measure(folder, quick)
    if found is None:
        yield check("programs in the virtual machine", "it cannot run here", "it runs", False)
        return
    for row in found["edges"]:
        yield from edges(row)
    for row in found["learning"]:
        yield from learning(row)
