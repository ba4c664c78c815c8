"""Tests whose outcome is the proof: every single failure of random fabrics, and programs over soft-RoCE that know
nothing of Espalier.
"""

import pathlib
import re
import subprocess
import sys

TARGETS = ["controller_test", "rdma_test"]

ROOT = pathlib.Path(__file__).resolve().parents[3]
CANNOT_RUN = 77
SECONDS = 600  # until the machine is killed
RDMA_TESTS = ["AcknowledgementsLeaveALinkWithTheirData", "BothDirectionsLeaveASpineThatDiesSilently",
              "HostLeavesADeadPathWithoutTheController"]


def outcomes(command):
    """The names of the tests that passed, and those of all that ran; none if the machine cannot run here."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == CANNOT_RUN:
        print(done.stderr.strip(), file=sys.stderr)
        return None
    passed = set(re.findall(r"\[       OK \] \w+\.(\w+)", done.stdout))
    ran = set(re.findall(r"\[ RUN      \] \w+\.(\w+)", done.stdout))
    return passed, ran


def rows(part, names, found):
    passed, ran = found
    for name in names:
        outcome = "passed" if name in passed else "failed" if name in ran else "did not run"
        yield {"name": f"{part}, {name}", "value": outcome, "aim": "passed", "ok": outcome == "passed"}


def promises(folder, seeds, quick):
    del seeds, quick
    names = ["HoldsForEverySingleFailureOfRandomFabrics"]
    yield from rows("promises", names,
                    outcomes([str(folder / "controller_test"), "--gtest_filter=StandbyBoundTest.*"]))


def rdma(folder, seeds, quick):
    del seeds, quick
    tests = ":".join(f"RdmaSteering.{name}" for name in RDMA_TESTS)
    found = outcomes([str(ROOT / "deploy/lab/rdma/start"), "--time-limit", str(SECONDS), "--",
                      str(folder / "rdma_test"), f"--gtest_filter={tests}"])
    if found is not None:
        yield from rows("rdma", RDMA_TESTS, found)
