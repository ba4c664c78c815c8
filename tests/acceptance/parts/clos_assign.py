"""Assignments on three and four tiers, with all links up and with dead ones, and flows that start one at
a time on a busy fabric. clos_bench measures it, and recounts every load from the paths; this reads its
tables. Times are of one thread and hold on a quiet machine only.
"""

import re
import statistics
import subprocess
import sys

TARGETS = ["clos_bench"]

# By row of `clos_bench tiers`: the greatest median time in microseconds.
MOST_US = {"fat-tree k=16, permutation": 25, "fat-tree k=32, permutation": 200,
           "fat-tree k=64, permutation": 2000, "fat-tree k=32, 4 flows a host": 1000}
# Of `clos_bench damage`.
MOST_US_DAMAGED = {"k=16, dead aggregation switch, 95 % of those": 250,
                   "k=32, dead aggregation switch, 95 % of those": 3000,
                   "k=16, 1 % dead links, 95 % of those": 500, "k=32, 1 % dead links, 95 % of those": 4000}
# Of `clos_bench starts`: the greatest p50, in microseconds.
MOST_US_START = {"k=16, 90 % busy": 3, "k=16, 98 % busy": 20, "k=32, 90 % busy": 3, "k=32, 98 % busy": 20}
# Of `clos_bench shares`, 64 leaves with 32 flows each: the load, as a fraction, and the greatest part of the
# flows that may take several paths, in percent.
SHARES = {"1 of 32 spines dead, exact of 2": (32 / 31, 94), "4 of 32 spines dead, exact of 2": (8 / 7, 75),
          "8 of 32 spines dead, exact of 2": (4 / 3, 50), "8 of 32 spines dead, exact of 8": (4 / 3, 100),
          "k=16, a plane dead, exact of 2": (8 / 7, 86)}
# Flows within pods beside flows between them, where pods are narrower upwards: to find the least maximum
# is NP-complete, and one flow more on leaf links is allowed.
MAY_MISS_BY_ONE = "2:1, 16 pods, permutation (some within)"


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


def table(folder, part):
    """The rows of one of clos_bench's tables, each as the texts between its bars."""
    done = subprocess.run([str(folder / "clos_bench"), part], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    print(done.stdout, file=sys.stderr, flush=True)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/clos: clos_bench {part} failed:\n" + (done.stdout + done.stderr)[-4000:])
    rows = [line.split("|") for line in done.stdout.splitlines() if "|" in line]
    return rows[1:]


def name_of(row):
    return row[0].rsplit(None, 1)[0].strip()


def greatest(text):
    return max(float(word.split("/")[0]) / float(word.split("/")[1]) if "/" in word else float(word)
               for word in text.split())


def tiers(folder):
    for row in table(folder, "tiers"):
        name = name_of(row)
        loads, bounds = row[4][1:9].split(), row[4][10:18].split()
        gap = max(greatest(load) - greatest(bound) for load, bound in zip(loads, bounds))
        most = 1 if name == MAY_MISS_BY_ONE else 0
        yield check(f"{name}: loads by tier", " ".join(loads), f"{' '.join(bounds)}, at most {most} above",
                    gap <= most)
        if name in MOST_US:
            median = float(row[2].split()[1])
            yield check(f"{name}: microseconds", median, f"at most {MOST_US[name]}", median <= MOST_US[name])


def damage(folder):
    medians = {}  # by row without the set of dead links, which is in brackets
    for row in table(folder, "damage"):
        name = name_of(row)
        load, bound = greatest(row[2][1:9]), greatest(row[2][10:16])
        yield check(f"{name}: greatest load", load, f"{bound}, the bound", load == bound)
        medians.setdefault(re.sub(r" \(\d+\)", "", name), []).append(float(row[1].split()[1]))
    for name, most in MOST_US_DAMAGED.items():
        median = statistics.median(medians[name])
        yield check(f"{name}: microseconds, median of {len(medians[name])} sets of dead links", median,
                    f"at most {most}", median <= most)


def starts(folder):
    for row in table(folder, "starts"):
        name = name_of(row)
        above = float(row[3])
        yield check(f"start, {name}: part of starts above the bound", above, 0, above == 0)
        if name not in MOST_US_START and "not in cache" not in name:
            continue
        p50 = float(row[1].split()[0])
        most = MOST_US_START[name.removesuffix(", links not in cache")]
        yield check(f"start, {name}: p50 in microseconds", p50, f"at most {most}", p50 <= most)


def shares(folder):
    for row in table(folder, "shares"):
        name = name_of(row)
        if name not in SHARES:
            continue
        load, divided = SHARES[name]
        # Shares are whole numbers of 1/720720 of a flow.
        found = greatest(row[2][1:15])
        yield check(f"{name}: load", round(found, 6), f"{load:.6f}, the fraction", load <= found + 1e-9 and
                    found - load < 2e-6)
        part = float(row[3].split("%")[0])
        yield check(f"{name}: flows on several paths, %", part, f"at most {divided}", part <= divided)


def checks(folder, seeds, quick):
    del seeds, quick
    yield from tiers(folder)
    yield from damage(folder)
    yield from starts(folder)
    yield from shares(folder)
