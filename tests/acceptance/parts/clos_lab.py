"""A live fabric of three tiers: ECMP beside Espalier, links that fail, and switches that hash alike. Then
hosts with four NICs, of which one dies, and switches that route by BGP. `lab_study clos` measures it, and the
switches' own counters judge it.
"""

import json
import statistics
import subprocess
import sys

TARGETS = ["lab_study"]

# The fabric has room for every flow alone on its links, so flows can take the ideal time, up to this
# factor.
MOST_OF_IDEAL = 1.25


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


def measure(folder, seeds, *options):
    command = [str(folder / "lab_study"), "clos", "--seeds", str(seeds), "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/clos: {' '.join(command)} failed")
    return json.loads(done.stdout)


def rows(measured, workload, scheme):
    return [row for row in measured["runs"] if row["workload"] == workload and row["scheme"] == scheme]


def steering(measured, name, most_core_flows, flows=16):
    for workload in most_core_flows:
        ecmp = rows(measured, workload, "ecmp")
        steered = rows(measured, workload, "espalier")
        case = f"{name}, {workload}"
        ratio = statistics.median(row["slowest_flow_seconds"] / row["ideal_seconds"] for row in steered)
        by_chance = statistics.median(row["slowest_flow_seconds"] / row["ideal_seconds"] for row in ecmp)
        aim = MOST_OF_IDEAL * max(1, most_core_flows[workload])
        yield check(f"{case}: slowest flow / ideal", round(ratio, 2),
                    f"at most {aim} (ECMP: {by_chance:.2f})", ratio <= aim)
        for tier, most in (("leaf", 1), ("core", most_core_flows[workload])):  # 0: there are no cores
            worst = max(row[f"max_{tier}_link_flows"] for row in steered)
            chance = max(row[f"max_{tier}_link_flows"] for row in ecmp)
            yield check(f"{case}: flows on the worst {tier} link", worst, f"{most} (ECMP: {chance})",
                        worst <= most)
        wrong = sum(row["mismatches"] for row in steered)
        yield check(f"{case}: flows on other switches than decided (both stages)", wrong, "0",
                    wrong == 0 and all(row["steered_flows"] >= flows for row in steered))


def nic_dies(measured):
    for workload, flows, what in (("without-nic", 30, "a NIC is dead: flows of the others"),
                                  ("nic-is-back", 32, "it is back: flows of all NICs")):
        found = rows(measured, workload, "espalier")
        steered = min(row["steered_flows"] for row in found)
        wrong = sum(row["mismatches"] for row in found)
        worst = max(row["max_leaf_link_flows"] for row in found)
        yield check(f"rails, {what}", f"{steered} steered, {wrong} elsewhere, worst link {worst}",
                    f"{flows}, 0, 1", steered == flows and wrong == 0 and worst == 1)


def checks(folder, seeds, quick):
    measured = measure(folder, seeds)
    yield from steering(measured, "three tiers", {"permutation": 1, "two-rings": 1})
    for kind in ("far-link", "core-link"):
        failures = [row for row in measured["failures"] if row["kind"] == kind]
        moved = max(row["seconds_to_move"] for row in failures)
        yield check(f"{kind} fails: seconds until its flows have other ports", round(moved, 3), "at most 1",
                    moved <= 1)
        dead = sum(row["dead_flows"] for row in failures)
        yield check(f"{kind} fails: flows that did not end whole", dead, "0",
                    dead == 0 and all(row["completed"] for row in failures))
    rails = measure(folder, seeds, "--rails")
    yield from steering(rails, "rails", {"permutation": 0, "rail-rings": 0}, flows=32)
    yield from nic_dies(rails)
    if quick:
        return
    measured = measure(folder, seeds, "--frr", "--no-failures")
    yield from steering(measured, "routes by BGP", {"permutation": 1, "two-rings": 1})
    measured = measure(folder, seeds, "--equal-seeds", "--no-failures")
    # Two of the four paths between pods have ports. In the permutation all four flows of a pod leave it, so
    # two share a core link.
    yield from steering(measured, "equal seeds", {"permutation": 2, "two-rings": 1})
