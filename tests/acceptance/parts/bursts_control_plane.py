"""What bursts cost the control plane, by the benchmarks that measure it: processor time per edge, time from an
edge to a needed port, messages, planned starts against others, and how well ends are predicted.

Figures need a quiet machine. Those of ends come from simulated time and are the same everywhere.
"""

import json
import subprocess
import sys

TARGETS = ["burst_load_bench", "bursts_bench", "end_forecast_bench", "prediction_bench"]

AGENTS = 1024
FLOWS = 16
EDGES_PER_SECOND = 10
MOST_US_PER_EDGE = 2.0
MOST_MS_TO_PORT = 10.0
MOST_OF_UNPLANNED = 1.05
MOST_END_ERROR_PERCENT = 10.0
STARTS = (1, 16, 128, 448)
ROW = "{:<66} {:>14}"


def check(name, value, aim, ok):
    return {"name": f"control plane, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"tests/acceptance/bursts: {' '.join(map(str, command))} failed:\n"
                 + (done.stdout + done.stderr)[-4000:])
    return json.loads(done.stdout)


def benchmarks(folder, name, pattern, *options):
    """The rows of a benchmark of Google's library."""
    return run([folder / name, f"--benchmark_filter={pattern}", "--benchmark_format=json",
                *options])["benchmarks"]


def show(text, value):
    print(ROW.format(text, value), file=sys.stderr, flush=True)


def load(folder, quick):
    """1,024 agents with 16 flows each over real connections."""
    seconds = 5 if quick else 15
    figures = run([folder / "burst_load_bench", "--agents", AGENTS, "--flows", FLOWS, "--edges",
                   EDGES_PER_SECOND, "--seconds", seconds, "--json"])
    for key, value in figures.items():
        show(f"burst load: {key}", f"{value:g}")
    wanted = AGENTS * FLOWS * EDGES_PER_SECOND
    rate = figures["edges_per_second"]
    yield check("edges a second taken", round(rate), f"at least {0.95 * wanted:.0f}",
                rate >= 0.95 * wanted)
    planned = figures["planned_flows"]
    yield check("flows with a planned path, as the phases are learned", round(planned), f"{AGENTS * FLOWS} (all)",
                planned == AGENTS * FLOWS)
    cost = figures["controller_us_per_edge"]
    yield check("controller's processor time per edge, us", round(cost, 2),
                f"at most {MOST_US_PER_EDGE}", cost <= MOST_US_PER_EDGE)
    messages = figures["pushes_per_second"] + figures["orders_per_second"]
    yield check("pushes and probe orders a second where no decision is needed", round(messages, 2), "0",
                messages == 0)
    delay = figures["decided_p99_us"] / 1000
    yield check("from an edge that needs a decision to its port, p99, ms", round(delay, 2),
                f"at most {MOST_MS_TO_PORT}, of at least 100 edges",
                delay <= MOST_MS_TO_PORT and figures["decided_edges"] >= 100)


def edges(folder):
    """The controller's own work, without messages."""
    for row in benchmarks(folder, "bursts_bench", "BM_Edges/64"):
        show("intake of an edge, ns", f"{row['ns_per_edge']:.0f}")
        yield check("intake of an edge, us", round(row["ns_per_edge"] / 1000, 2),
                    f"at most {MOST_US_PER_EDGE}", row["ns_per_edge"] <= 1000 * MOST_US_PER_EDGE)
        yield check("busy edges without a decision", row["undecided"], "1 (all)", row["undecided"] == 1)


def starts(folder, quick):
    """Sets of flows that start, with and without precomputed paths, in turn."""
    rows = benchmarks(folder, "prediction_bench", "BM_StartsOfASet",
                      f"--benchmark_repetitions={3 if quick else 15}",
                      "--benchmark_enable_random_interleaving=true",
                      "--benchmark_report_aggregates_only=true")
    medians = {row["run_name"]: row["real_time"] for row in rows if row["aggregate_name"] == "median"}

    def median(count, planned):
        return next(value for name, value in medians.items()
                    if name.startswith(f"BM_StartsOfASet/{count}/{planned}/"))

    for count in STARTS:
        unplanned, planned = median(count, 0), median(count, 1)
        show(f"{count} starts: unplanned and planned, us", f"{unplanned:.1f} {planned:.1f}")
        yield check(f"{count} planned starts / unplanned", round(planned / unplanned, 2),
                    f"at most {MOST_OF_UNPLANNED}", planned <= MOST_OF_UNPLANNED * unplanned)


def ends(folder):
    """Forecasts of ends in simulated time."""
    programs = ("tells what remains", "posts all at once", "posts portions",
                "posts portions, a fifth at half the rate")
    for row in benchmarks(folder, "end_forecast_bench", "."):
        program, milliseconds = row["run_name"].split("/")[1:3]
        points = [(point, row[f"at_{point}_percent_median"], row[f"at_{point}_percent_p90"])
                  for point in (10, 50, 90)]
        name = f"program that {programs[int(program)]}, {milliseconds} ms"
        show(f"error of the end at 10, 50, 90 %: {name}, median %",
             " ".join(f"{median:.1f}" for _, median, _ in points))
        show("  the same, p90 %", " ".join(f"{p90:.1f}" for _, _, p90 in points))
        for point, median, _ in points:
            yield check(f"error of the end at {point} % of the phase: {name}, %", round(median, 2),
                        f"at most {MOST_END_ERROR_PERCENT}", median <= MOST_END_ERROR_PERCENT)


def checks(folder, seeds, quick):  # pylint: disable=unused-argument
    """All checks of this part. Nothing in it is random, so `seeds` does not count."""
    yield from load(folder, quick)
    yield from edges(folder)
    yield from starts(folder, quick)
    yield from ends(folder)
