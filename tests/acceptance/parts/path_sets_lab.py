"""A permutation of flows in a lab (`lab_study damage`): a link is down or at half its rate from the start, or loses
data, acknowledgements or both in the middle; or flows that are not steered run beside it."""

import json
import statistics
import subprocess
import sys

TARGETS = ["lab_study"]

MOST_HEALTHY = 1.10        # of the ideal: a flow alone on its links
MOST_IF_KNOWN = 1.25       # of an even share of the links that are left, with 8 connections or more
MOST_AFTER_DEATH = 1.35    # the same, if a link dies in the middle, with several connections for each flow
MOST_BESIDE_UNKNOWN = 1.4  # with 10 % of the flows unknown to the controller
WHO = {"espalier": "with the controller", "feed": "with a feed of loads", "alone": "without the controller"}


def check(name, value, aim, ok):
    return {"name": f"lab, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def measure(folder, seeds, paths, schemes, **options):
    command = [str(folder / "lab_study"), "damage", "--seeds", str(seeds), "--paths", paths, "--schemes", schemes, "--json"]
    for name, value in options.items():
        command += [f"--{name}", value]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/path_sets: {' '.join(command)} failed")
    return json.loads(done.stdout)["rows"]


def case_of(row):
    beside = ""
    if row["unknown_percent"]:
        beside += f", {row['unknown_flows']} of {row['flows']} flows unknown"
    if row["mice_percent"]:
        beside += f", {row['mice_percent']} % of the bytes in mice"
    tiers = "three tiers, " if row["tiers"] == 3 else ""
    return f"{tiers}lost: {row['damage']}{beside}, {row['paths']} connections, {WHO[row['scheme']]}"


def most_of(row):
    """The aim of the slowest flow's time, relative to an even share; None: there is none."""
    if row["unknown_percent"]:
        return MOST_BESIDE_UNKNOWN if row["unknown_percent"] >= 10 and row["paths"] >= 8 else None
    if row["mice_percent"]:
        return None
    if row["damage"] == "none":
        return MOST_HEALTHY
    if row["paths"] < 8:
        return None
    return MOST_IF_KNOWN if row["damage"] in ("before", "half") else MOST_AFTER_DEATH


def checks(folder, seeds, quick):
    paths = "1,8" if quick else "1,4,8,16"
    rows = measure(folder, seeds, paths, "espalier,alone",
                   lost="none,before,half,all" if quick else "none,before,half,data,acknowledgements,all")
    rows += measure(folder, seeds, "8", "espalier,alone", tiers="3",
                    lost="all" if quick else "none,before,half,data,acknowledgements,all")
    rows += measure(folder, seeds, "8" if quick else paths, "espalier,feed", lost="none",
                    unknown="10" if quick else "2,10")
    if not quick:
        rows += measure(folder, seeds, paths, "espalier,feed", lost="none", mice="20")
    for row in rows:
        case = case_of(row)
        hanging = sum(row["hanging_flows"])
        yield check(f"{case}: flows that do not end", hanging, "0", hanging == 0)
        most = most_of(row)
        if most is None:
            continue
        slowest = statistics.median(row["slowest_by_ideal"])
        ideal = "even share" if row["damage"] in ("before", "half") else "ideal"
        yield check(f"{case}: slowest flow / {ideal}", round(slowest, 3), f"at most {most}", slowest <= most)
