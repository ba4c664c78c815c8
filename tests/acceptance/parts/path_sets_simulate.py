"""What path sets are worth where a link is dead, slow or dies, by the program damage_study: fluid flows over the
controller's own decisions, for 64 to 1,024 hosts. The worst of the seeds counts.
"""

import json
import subprocess
import sys

TARGETS = ["damage_study"]

HOSTS = [64, 256, 1024]
SETS = [1, 4, 8, 16]
SEEDS = 3  # of a fabric; the largest has one, as it takes most of the time
MOST_OVER_BOUND = {8: 1.25, 16: 1.05}  # by paths of a set, dealt out by progress
MOST_LOAD_OVER_LEAST = 1.25  # after hosts have moved alone, sets of 8
MOST_AFTER_FAILURE = 1.35  # of a transfer alone, sets of 8
ROUNDING = 1e-6


def check(name, value, aim, ok):
    return {"name": f"simulate, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def simulate(program, hosts, sets, seed):
    command = [program, "--hosts", str(hosts), "--sets", ",".join(map(str, sets)), "--seed", str(seed), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/path_sets: {' '.join(command)} failed:\n" + (done.stdout + done.stderr)[-4000:])
    return json.loads(done.stdout)


def rows(runs, study, **wanted):
    """The rows of a study in all runs that have these values."""
    return [row for run in runs for row in run[study] if all(row[key] == value for key, value in wanted.items())]


def known(runs, hosts, damage):
    for paths, most in MOST_OVER_BOUND.items():
        found = rows(runs, "known", damage=damage, paths=paths)
        if not found:
            continue
        worst = max(row["slowest_by_progress"] / row["bound"] for row in found)
        yield check(f"{hosts} hosts, {damage}, sets of {paths} by progress: slowest / bound", round(worst, 3),
                    f"at most {most}", worst <= most)
    gains = [row["slowest_equal_shares"] - row["slowest_by_progress"] for row in rows(runs, "known", damage=damage)
             if row["paths"] > 1]
    yield check(f"{hosts} hosts, {damage}: least gain by progress over equal shares", round(min(gains), 4), "above 0",
                min(gains) > ROUNDING)
    single = min(row["slowest_equal_shares"] for row in rows(runs, "known", damage=damage, paths=1))
    yield check(f"{hosts} hosts, {damage}: slowest with one path", round(single, 3), "2, as two flows share a link",
                abs(single - 2) < 1e-3)


def failure(runs, hosts):
    for dealing in ("static", "progress"):
        found = rows(runs, "failure", paths=8, dealing=dealing)
        reactions = [{one["reaction"]: one for one in row["reactions"]} for row in found]
        both = [row["both"] for row in reactions]
        worst = max(one["slowest"] for one in both)
        hanging = sum(one["unfinished_flows"] for one in both)
        yield check(f"{hosts} hosts, a link dies, sets of 8 {dealing}: slowest, flows that never end",
                    [round(worst, 3), hanging], f"at most {MOST_AFTER_FAILURE}, 0",
                    worst <= MOST_AFTER_FAILURE and hanging == 0)
    unsteered = min(row["reactions"][0]["unfinished_flows"] for row in rows(runs, "failure", dealing="static"))
    yield check(f"{hosts} hosts, a link dies, nobody reacts: flows that never end", unsteered,
                "at least 1: else the failure would be none", unsteered >= 1)
    below = [one for row in rows(runs, "failure") for one in row["reactions"]
             if one["unfinished_flows"] == 0 and one["slowest"] < row["bound"] - ROUNDING]
    yield check(f"{hosts} hosts, a link dies: reactions faster than the bound", len(below), "0", not below)


def loads(runs, hosts):
    found = rows(runs, "loads")
    excess = max(max(row["link_failures"]["load"], row["spine_failures"]["load"]) - row["promised"] for row in found)
    failures = sum(row["link_failures"]["failures"] + row["spine_failures"]["failures"] for row in found)
    yield check(f"{hosts} hosts, hosts moved alone: greatest load above what was told, of {failures} failures",
                round(excess, 6), "0", excess <= ROUNDING)
    worst = max(row["spine_failures"]["over_bound"] for row in rows(runs, "loads", paths=8))
    yield check(f"{hosts} hosts, hosts moved alone, sets of 8: load / least possible", round(worst, 3),
                f"at most {MOST_LOAD_OVER_LEAST}", worst <= MOST_LOAD_OVER_LEAST)


def checks(folder, seeds, quick):
    program = str(folder / "damage_study")
    for hosts in HOSTS[:2] if quick else HOSTS:
        count = 1 if hosts == max(HOSTS) else min(seeds, SEEDS)
        runs = [simulate(program, hosts, [1, 8] if quick else SETS, seed) for seed in range(1, count + 1)]
        for row in rows(runs, "known"):
            print(f"{hosts} hosts, {row['traffic']}, {row['damage']}, sets of {row['paths']}: bound {row['bound']:.3f}, "
                  f"equal shares {row['slowest_equal_shares']:.3f}, weights {row['slowest_weights']:.3f}, "
                  f"by progress {row['slowest_by_progress']:.3f}", file=sys.stderr)
        for damage in ("dead", "half rate"):
            yield from known(runs, hosts, damage)
        yield from failure(runs, hosts)
        yield from loads(runs, hosts)
