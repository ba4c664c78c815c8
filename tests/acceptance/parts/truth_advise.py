"""What `espalier advise` predicts from watching alone, against what steering then gains, on live fabrics.

One job sends a random permutation between leaves in each of its rounds, on connections that last. The controller first
observes; a reload then lets it steer. Both times are those that the hosts report."""

import random
import statistics
import sys
import time

from parts import link_faults

TARGETS = link_faults.TARGETS
BYTES = 500_000  # 0.2 s on a link
COMPUTE = 0.3  # seconds in a round
AIM = 0.15
FEW = 0.1  # of a burst: a smaller gain is compared with the burst, not with itself


def permutation(hosts, seed):
    """One job: from each host to one under another leaf, to each host from one."""
    chance = random.Random(seed)
    while True:
        targets = chance.sample(range(len(hosts)), len(hosts))
        if all(i // 4 != target // 4 for i, target in enumerate(targets)):
            break
    bursts = [{"source": hosts[i], "destination": hosts[target], "bytes": BYTES} for i, target in enumerate(targets)]
    return {"segment_bytes": 50_000, "phased_jobs": [{"id": "job", "iterations": 1_000_000, "phases": [
        {"name": "exchange", "compute_seconds": COMPUTE, "bursts": bursts}]}]}


class ObservingLab(link_faults.Lab):
    """A lab whose controller only observes, until `steer`."""

    config = 'mode: "observe"\n'

    def steer(self):
        path = self.files / "controller.conf"
        path.write_text(path.read_text(encoding="utf-8").replace(self.config, ""), encoding="utf-8")
        self.espalier("reload", "--controller", f"unix:{self.files}/http")

    def advice(self, placing):
        """What the ledger says of the job placed in this way; None: nothing yet."""
        return next((job for job in self.get("advise")["jobs"]
                     if job["job"] == "job" and job["placing"] == placing), None)

    def pushed(self):
        """Pushes that had paths, as the controller's log of them has it."""
        return len(self.get("plans")["plans"])


def scheme(job, name):
    return next(one for one in job["schemes"] if one["scheme"] == name)["burst_seconds"]


def one_seed(folder, name, seed, bursts):
    """(measured on ECMP, predicted, measured steered, part of the paths known, pushed while observing)"""
    def enough(placing):
        job = lab.advice(placing)
        return job is not None and job["bursts"] >= bursts

    with ObservingLab(folder, name, seed=seed) as lab:
        lab.traffic(permutation(lab.hosts, seed))
        if link_faults.wait(lambda: enough("ECMP"), 240) is None:
            sys.exit(f"{name}: too few bursts were observed: {lab.advice('ECMP')}")
        before, pushed = lab.advice("ECMP"), lab.pushed()
        lab.steer()
        time.sleep(6)  # the moves are over
        first = lab.advice("STEERED") or {"bursts": 0, "measured_seconds": 0}
        bursts += first["bursts"]
        if link_faults.wait(lambda: enough("STEERED"), 240) is None:
            sys.exit(f"{name}: too few steered bursts were observed: {lab.advice('STEERED')}")
        after = lab.advice("STEERED")
    steered = ((after["measured_seconds"] * after["bursts"] - first["measured_seconds"] * first["bursts"]) /
               (after["bursts"] - first["bursts"]))
    return before["measured_seconds"], scheme(before, "OPTIMUM"), steered, before["known_paths"], pushed


def run(report, folder, name="advise", seeds=10, bursts=15):
    errors, pushed, known = [], 0, []
    for seed in range(1, seeds + 1):
        before, predicted, after, part, paths = one_seed(folder, f"{name}{seed}", seed, bursts)
        achieved = before - after
        base = achieved if achieved >= FEW * before else before
        errors.append(abs(before - predicted - achieved) / base)
        pushed += paths
        known.append(part)
        print(f"  seed {seed}: {before:.3f} s on ECMP, {predicted:.3f} s predicted, {after:.3f} s steered, "
              f"{100 * part:.0f} % of the paths known, error {100 * errors[-1]:.1f} %", file=sys.stderr)
    report.add("paths pushed while observing", pushed, 0, pushed == 0)
    report.add("part of the paths on ECMP that was known, least of the seeds", round(min(known), 3), ">= 0.9",
               min(known) >= 0.9)
    report.add(f"predicted gain against achieved gain, greatest error of {seeds} seeds", round(max(errors), 3),
               f"<= {AIM}", max(errors) <= AIM)
    report.add("the same, median", round(statistics.median(errors), 3), f"<= {AIM}", statistics.median(errors) <= AIM)
