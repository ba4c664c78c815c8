"""From a link that fails under a job on a forest until all agents have the next plan in force, by the benchmark that
measures it: the controller's work and the agents' messages in one thread, with probes that are answered at once."""

import json
import subprocess
import sys

TARGETS = ["forest_failover_bench"]
# By shape (spines / leaves / hosts per leaf, one rank a host): ranks, aim in milliseconds, runs in `--quick`.
SHAPES = {"4/8/8": (64, 100, True), "16/32/32": (1024, 1000, False)}


def measure(folder, shape):
    done = subprocess.run([folder / "forest_failover_bench", f"--benchmark_filter=BM_AForestsLinkFails/{shape}/0/",
                           "--benchmark_format=json"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"forest_failover_bench failed:\n{(done.stdout + done.stderr)[-4000:]}")
    rows = json.loads(done.stdout)["benchmarks"]
    if len(rows) != 1:
        sys.exit(f"forest_failover_bench has {len(rows)} rows for {shape}, not one")
    return rows[0]


def checks(folder, quick):
    for shape, (ranks, most, is_quick) in SHAPES.items():
        if quick and not is_quick:
            continue
        row = measure(folder, shape)
        milliseconds = row["real_time"]
        yield {"name": f"failover, {ranks} ranks: ms from a dead link until the next plan is in force",
               "value": round(milliseconds, 1), "aim": f"at most {most}", "ok": milliseconds <= most}
        yield {"name": f"failover, {ranks} ranks: failures without a backup forest that were answered with the program "
                       "that ranks have", "value": int(row["rerouted"]), "aim": f"all {row['iterations']}",
               "ok": row["rerouted"] == row["iterations"]}
