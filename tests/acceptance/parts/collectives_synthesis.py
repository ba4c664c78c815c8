"""Direct-connect networks and schedules of steps: times of synthesis_bench (one thread, quiet machine),
exact costs, fronts and all-to-all rates of the text's tables, and forests beside breadth-first broadcasts
(BFB) on random networks. The verifier of schedules finds each cost anew.
"""

import fractions
import json
import pathlib
import random
import subprocess
import sys
import tempfile

TARGETS = ["espalier", "synthesis_bench", "synthesis_test"]

# By benchmark: the most milliseconds.
MOST_MS = {"BM_BfbCost/4/1024": 1000, "BM_BfbCost/8/1024": 1000, "BM_BfbSchedule/4/1024": 1000,
           "BM_BfbSchedule/8/1024": 1000, "BM_BfbCostFromOneNode/circulant": 50,
           "BM_BfbCostFromOneNode/torus": 50, "BM_BfbCostFromOneNode/hypercube": 50,
           "BM_FindNetworks/1024/4": 10000, "BM_FindNetworks/2000/4": 10000,
           "BM_FindNetworks/1999/4": 10000, "BM_AllToAll/circulant": 2000, "BM_AllToAll/torus": 2000,
           "BM_AllToAll/hypercube": 2000}
# T_L and T_B of the best BFB allgather.
BFB = {"Bipartite(2)": (2, "3/4"), "Bipartite(4)": (2, "7/8"), "Complete(5)": (1, "4/5"),
       "Hamming(2, 3)": (2, "8/9"), "Circulant(7, 2, 3)": (2, "6/7"), "Circulant(11, 2, 3)": (2, "10/11"),
       "Circulant(12, 2, 3)": (2, "11/12"), "Circulant(16, 3, 4)": (3, "15/16"), "BiRing(2, 9)": (4, "8/9"),
       "BiRing(2, 64)": (32, "63/64"), "UniRing(1, 7)": (6, "6/7"), "Torus(3, 3, 2)": (3, "17/18"),
       "Torus(3, 3, 3)": (3, "26/27"), "Torus(3, 3, 3, 2)": (4, "53/54"), "Hamming(6, 2)": (6, "63/64"),
       "GenKautz(4, 64)": (3, "21/16"), "Product(BiRing(2, 8), Power(UniRing(1, 4), 2))": (10, "127/128")}
# Allgather at degree 4, by nodes: the front, which is the text's or better (docs/schedules.md has the
# differences).
FRONTS = {32: [("3", "1"), ("4", "31/32")], 64: [("3", "21/16"), ("4", "1"), ("6", "63/64")],
          128: [("4", "33/32"), ("5", "1"), ("8", "127/128")],
          256: [("4", "85/64"), ("5", "65/64"), ("7", "1"), ("10", "255/256")],
          512: [("5", "133/128"), ("6", "129/128"), ("9", "1"), ("16", "511/512")],
          1024: [("5", "341/256"), ("6", "261/256"), ("8", "257/256"), ("11", "1"), ("14", "1023/1024")]}
# All-to-all: the text's rate, and the greatest gap between the rate that is found and the bound that is
# proved; 0 where the rate is exact.
RATES = {"Line(Bipartite(4))": (5.71e-2, 0.01), "DistanceRegular(32)": (5.26e-2, 0.01),
         "GenKautz(4, 64)": (2.17e-2, 0.01),
         "Product(BiRing(2, 8), Power(UniRing(1, 4), 2))": (5.21e-3, 0),
         "Product(Power(UniRing(1, 4), 3), UniRing(1, 8))": (5.58e-4, 0),
         "Power(Product(UniRing(1, 4), UniRing(1, 8)), 2)": (2.79e-4, 0)}
TEXT_ROUNDING = 0.002
RANDOM_NETWORKS = {True: 60, False: 200}  # by --quick
# Tests that compare with a solver of linear programs, by --quick.
SOLVER_TESTS = {True: {"60 random networks": "Bfb.CostsWhatASolverFindsOnRandomDigraphs",
                       "all-to-all, 40 random networks": "AllToAll.EnclosesWhatASolverFindsOnRandomDigraphs",
                       "40 unequal demands": "AllToAll.EnclosesWhatASolverFindsForUnequalDemands"},
                False: {"1,000 random networks": "LongBfb.CostsWhatASolverFindsOnAThousandRandomDigraphs",
                        "all-to-all, 100 random networks": "LongAllToAll.EnclosesWhatASolverFindsOn100RandomDigraphs",
                        "40 unequal demands": "AllToAll.EnclosesWhatASolverFindsForUnequalDemands"}}


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/collectives: {' '.join(str(word) for word in command)} failed:\n"
                 + (done.stdout + done.stderr)[-4000:])
    return done.stdout


def times(folder):
    found = json.loads(run([folder / "synthesis_bench", "--benchmark_format=json",
                            "--benchmark_min_time=0.3"]))
    by_name = {row["name"]: row["cpu_time"] for row in found["benchmarks"]}
    for name, time in by_name.items():
        print(f"{name}: {time:.1f} ms", file=sys.stderr)
    for name, most in MOST_MS.items():
        yield check(f"{name}, ms", round(by_name[name], 1), f"at most {most}", by_name[name] <= most)


def exact_costs(espalier, scratch):
    topology, schedule = scratch / "network.json", scratch / "schedule.json"
    for text, (steps, t_b) in BFB.items():
        run([espalier, "topology", "make", "direct", text, "-o", topology])
        run([espalier, "schedule", "make", "bfb", "--topology", topology, "-o", schedule])
        found = json.loads(run([espalier, "schedule", "verify", "--topology", topology, schedule, "--json"]))
        yield check(f"BFB on {text}: T_L, T_B", f"{found['t_l']}, {found['t_b']}", f"{steps}, {t_b}",
                    found["valid"] and (found["t_l"], found["t_b"]) == (str(steps), t_b))


def fronts(espalier):
    for nodes, front in FRONTS.items():
        found = json.loads(run([espalier, "topology", "find", "--nodes", nodes, "--degree", "4", "--json"]))
        costs = [(str(row["t_l"]), row["t_b"]) for row in found]
        yield check(f"networks of {nodes} nodes, degree 4: T_L, T_B", costs, front, costs == front)


def rates(espalier, scratch):
    topology = scratch / "network.json"
    for text, (rate, gap) in RATES.items():
        run([espalier, "topology", "make", "direct", text, "-o", topology])
        found = json.loads(run([espalier, "schedule", "make", "alltoall", "--topology", topology]))
        low, high = (float(fractions.Fraction(found[key])) for key in ("rate", "rate_bound"))
        encloses = low * (1 - TEXT_ROUNDING) <= rate <= high * (1 + TEXT_ROUNDING)
        yield check(f"all-to-all on {text}: rate, proved bound", f"{low:.4g}, {high:.4g}",
                    f"{rate:.4g} between them, {gap:.0%} apart at most",
                    encloses and high <= low * (1 + gap) * (1 + 1e-12))


def random_network(source):
    """A strongly connected digraph without parallel links, in which all nodes have d links in and out."""
    while True:
        nodes, degree = source.randint(5, 14), source.randint(2, 4)
        links = set()
        for _ in range(degree):
            targets = list(range(nodes))
            source.shuffle(targets)
            links |= set(enumerate(targets))
        if len(links) < nodes * degree or any(a == b for a, b in links):
            continue
        if all(len(reached(nodes, links, reverse)) == nodes for reverse in (False, True)):
            return nodes, degree, sorted(links)


def reached(nodes, links, reverse):
    seen, border = {0}, [0]
    while border:
        at = border.pop()
        for a, b in links:
            a, b = (b, a) if reverse else (a, b)
            if a == at and b not in seen:
                seen.add(b)
                border.append(b)
    return seen


def comparisons(espalier, scratch, count):
    topology, schedule = scratch / "random.json", scratch / "schedule.json"
    holds, forest_over, bfb_over = 0, [], []
    for seed in range(1, count + 1):
        nodes, degree, links = random_network(random.Random(seed))
        topology.write_text(json.dumps({
            "name": "random", "version": 1,
            "nodes": [{"id": f"n{i}", "kind": "COMPUTE", "host": f"n{i}"} for i in range(nodes)],
            "links": [{"id": f"l{a}-{b}", "a": f"n{a}", "b": f"n{b}", "gbps": "1", "directed": True}
                      for a, b in links]}))
        forest = json.loads(run([espalier, "forest", "--topology", topology, "--json"]))
        run([espalier, "schedule", "make", "bfb", "--topology", topology, "-o", schedule])
        bfb = json.loads(run([espalier, "schedule", "verify", "--topology", topology, schedule, "--json"]))
        least = fractions.Fraction(nodes - 1, nodes)
        of_forest = fractions.Fraction(forest["achieved"]["inverse_rate"]) * degree / nodes
        of_bfb = fractions.Fraction(bfb["t_b"])
        holds += least <= of_forest <= of_bfb
        forest_over.append(float(of_forest / least))
        bfb_over.append(float(of_bfb / least))
    print(f"T_B over (N - 1) / N on {count} random networks: forest {sum(forest_over) / count:.3f}, at most "
          f"{max(forest_over):.3f}; BFB {sum(bfb_over) / count:.3f}, at most {max(bfb_over):.3f}", file=sys.stderr)
    yield check(f"(N - 1) / N <= T_B of the forest <= T_B of BFB, of {count} random networks", holds, count,
                holds == count)
    above = sum(a > b for a, b in zip(bfb_over, forest_over))
    yield check("random networks on which the forest is faster than BFB", above, "at least 1: else both are one",
                above >= 1)


def solver(folder, quick):
    for name, test in SOLVER_TESTS[quick].items():
        done = subprocess.run([folder / "synthesis_test", f"--gtest_filter={test}"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        passed = done.returncode == 0 and "[  PASSED  ] 1 test" in done.stdout
        if not passed:
            print(done.stdout[-4000:], file=sys.stderr)
        yield check(f"against a solver of linear programs: {name}", "equal" if passed else "differs", "equal", passed)


def checks(folder, quick):
    espalier = folder / "espalier"
    yield from times(folder)
    yield from solver(folder, quick)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        yield from exact_costs(espalier, scratch)
        yield from fronts(espalier)
        yield from rates(espalier, scratch)
        yield from comparisons(espalier, scratch, RANDOM_NETWORKS[quick])
