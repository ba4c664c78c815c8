"""A link of a lab loses data, acknowledgements or both in the middle of a permutation of flows (espalier-damage)."""

import json
import statistics
import subprocess
import sys

TARGETS = ["espalier-damage"]

MOST_HEALTHY = 1.10       # of the ideal: a flow alone on its links
MOST_IF_KNOWN = 1.25      # of an even share of the links that are left, with 8 connections or more
MOST_AFTER_DEATH = 1.35   # the same, if a link dies in the middle, with several connections for each flow


def check(name, value, aim, ok):
    return {"name": f"lab, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def measure(folder, seeds, paths, lost):
    command = [str(folder / "espalier-damage"), "--seeds", str(seeds), "--paths", paths, "--lost", lost,
               "--schemes", "espalier,alone", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/path_sets: {' '.join(command)} failed")
    return json.loads(done.stdout)["rows"]


def checks(folder, seeds, quick):
    rows = measure(folder, seeds, "1,8" if quick else "1,4,8,16",
                   "none,before,all" if quick else "none,before,data,acknowledgements,all")
    for row in rows:
        slowest = statistics.median(row["slowest_by_ideal"])
        who = "with the controller" if row["scheme"] == "espalier" else "without the controller"
        case = f"lost: {row['damage']}, {row['paths']} connections, {who}"
        if row["damage"] == "none":
            yield check(f"{case}: slowest flow / ideal", round(slowest, 3), f"at most {MOST_HEALTHY}",
                        slowest <= MOST_HEALTHY)
            continue
        hanging = sum(row["hanging_flows"])
        yield check(f"{case}: flows that do not end", hanging, "0", hanging == 0)
        if row["damage"] == "before":
            if row["paths"] >= 8:
                yield check(f"{case}: slowest flow / even share", round(slowest, 3), f"at most {MOST_IF_KNOWN}",
                            slowest <= MOST_IF_KNOWN)
        elif row["paths"] >= 8:
            yield check(f"{case}: slowest flow / ideal", round(slowest, 3), f"at most {MOST_AFTER_DEATH}",
                        slowest <= MOST_AFTER_DEATH)
