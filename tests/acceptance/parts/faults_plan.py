"""What offline commands say of fabrics that steering cannot use as they are drawn, and the tests of the figures."""

import json
import pathlib
import re
import subprocess
import tempfile

TARGETS = ["controller_test", "controller_modules_test", "controller_rollout_test", "routing_test"]

# Tests of the controller's figures and verdicts in a simulated cluster, by binary and what they show.
TESTS = [
    ("controller_test", "BurstsTest.TheSummaryCountsTheBusiestPhasesAlsoBetweenBursts",
     "figures count the busiest phases, also between bursts"),
    ("controller_test", "SilentChanges.FlowsAreSpreadAgainWhenANextHopReturns",
     "flows are spread again when a next hop returns without a word"),
    ("controller_test", "SilentChanges.ASwitchThatSpraysIsLeftAlone",
     "a switch that sprays is named and left alone, and steered again when it hashes"),
    ("controller_test", "SilentChanges.AFlowThatWaitsForAPortIsDegradedAfterFiveSeconds",
     "a flow that waits for five seconds is degraded"),
    ("controller_modules_test", "Spraying.*", "neither a new hash nor a route that comes back is called spraying"),
    ("controller_modules_test", "*SeveralRings*:Rounds.*:JobOfManyGroups.*",
     "jobs of 1, 2 and 6 rings: rounds and ideals within 5 % of the generator's log"),
    ("controller_modules_test", "Groups.*:Bursts.*",
     "groups of a job that share all NICs are found by who sends together"),
    ("controller_test", "RecomputeTest.*", "a recomputation answers the same at any instant of the bursts"),
    ("controller_test", "SpreadWatchTest.*:SpreadOfPhases.*",
     "a load that stays above what is possible is noticed, with phases and without"),
    ("controller_rollout_test", "SteeringRules.*", "a percentage of hosts is as near as hosts allow"),
    ("routing_test", "UnreachedPaths.*", "paths without ports are counted"),
]


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


def engine(folder):
    for binary, filter_, what in TESTS:
        done = subprocess.run([folder / binary, f"--gtest_filter={filter_}"], capture_output=True, text=True)
        passed = len(re.findall(r"^\[       OK \]", done.stdout, re.M))
        yield check(what, f"{passed} tests pass, exit code {done.returncode}", "all pass",
                    done.returncode == 0 and passed > 0)


def dual_tor():
    """Eight hosts, each with one NIC and two links, to two leaves."""
    switch = lambda name, role: {"id": name, "kind": "SWITCH", "role": role}
    nodes = [{"id": f"h{h}", "kind": "NIC", "host": f"h{h}", "addresses": [f"10.0.{h}.1"]} for h in range(8)]
    nodes += [switch(f"leaf{leaf}", "LEAF") for leaf in range(4)] + [switch(f"spine{s}", "SPINE") for s in range(4)]
    links = [{"a": f"h{h}", "b": f"leaf{h // 4 * 2 + k}", "gbps": 200} for h in range(8) for k in range(2)]
    links += [{"a": f"leaf{leaf}", "b": f"spine{s}", "gbps": 200} for leaf in range(4) for s in range(4)]
    return {"name": "dual-tor", "version": 1, "nodes": nodes, "links": links}


def checks(folder):
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)

        def run(*words):
            return subprocess.run([folder / "espalier", *words], capture_output=True, text=True, cwd=here)

        tree = json.loads(run("topology", "make", "fat-tree", "--k", "4").stdout)
        seeds = {"LEAF": 10, "SPINE": 20, "CORE": 0}
        for name, hash_ in (("polarised", "crc32"), ("apart", "jenkins")):
            for number, node in enumerate(tree["nodes"]):
                if node["kind"] != "SWITCH":
                    continue
                seed = seeds[node["role"]] if name == "polarised" else 1000 + number
                node["ecmp"] = {"hash": hash_, "seed": seed}
            (here / f"{name}.json").write_text(json.dumps(tree))
            hosts = [node["id"] for node in tree["nodes"] if node["kind"] == "COMPUTE"]
            rows = [f"f{i},job,{hosts[i]},{hosts[(i + 4) % 16]},1000000" for i in range(16)]
            (here / "flows.csv").write_text("flow,job,src,dst,bytes\n" + "\n".join(rows) + "\n")
            found = json.loads(run("topology", "check", f"{name}.json", "--json").stdout)
            assigned = run("assign", "--topology", f"{name}.json", "--flows", "flows.csv")
            gaps = " ".join(found["steering_gaps"])
            is_bad = name == "polarised"
            yield check(f"topology check of a fabric with {'one linear hash for each tier' if is_bad else 'other hashes'}",
                        gaps[:120] or "nothing lacks", "names the share and the remedy" if is_bad else "nothing lacks",
                        ("no source port takes 2 of 4 paths" in gaps and "ecmp_hash_offset" in gaps) == is_bad)
            yield check("  and a theorem", found["theorem"] or "none", "none" if is_bad else "one",
                        (found["theorem"] == "") == is_bad)
            yield check("  and what assign says", assigned.stderr.strip()[:100] or "nothing",
                        "that no source port takes some paths" if is_bad else "nothing",
                        ("no source port takes" in assigned.stderr) == is_bad)
        (here / "dual.json").write_text(json.dumps(dual_tor()))
        text = run("topology", "check", "dual.json").stdout
        yield check("topology check of NICs with two uplinks", next(
            (line.strip()[:120] for line in text.splitlines() if "uplinks" in line), "not named"),
            "names each NIC and what chooses its first hop", all(f"h{h} to leaf" in text for h in range(8)) and "chooses the first hop" in text)
