"""What the shim does to programs of this machine: tests with fake copies of libibverbs, and its cost."""

import os
import re
import subprocess
import time

TARGETS = ["shim_front_test", "shim_bench", "espalier_verbs_shim"]

STARTS = 300
ROUNDS = 5
START_AIM_MS = 0.2
POST_AIM_NS = 15.0


def output_of(command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options).stdout


def situations(folder):
    output = output_of([str(folder / "shim_front_test")])
    names = sorted(set(re.findall(r"\[ RUN      \] (?:Releases/)?(\w+\.\w+)", output)))
    for name in names:
        ran = len(re.findall(rf"\[ RUN      \] (?:Releases/)?{name}\b", output))
        passed = len(re.findall(rf"\[       OK \] (?:Releases/)?{name}\b", output))
        yield {"name": f"situations, {name}", "value": f"{passed} passed", "aim": f"{ran} passed",
               "ok": passed == ran}
    if not names:
        yield {"name": "situations", "value": "no test ran", "aim": "all passed", "ok": False}


def seconds_of_starts(environment):
    begin = time.monotonic()
    for _ in range(STARTS):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)
    return time.monotonic() - begin


def cost(folder):
    plain = {"PATH": "/usr/bin:/bin"}
    loaded = plain | {"LD_PRELOAD": str(folder.parent / "lib/reach/libespalier-verbs.so")}
    without = with_front = float("inf")
    for _ in range(ROUNDS):
        without = min(without, seconds_of_starts(plain))
        with_front = min(with_front, seconds_of_starts(loaded))
    added_ms = (with_front - without) * 1000 / STARTS
    yield {"name": f"cost, start of /bin/true (least of {ROUNDS} rounds of {STARTS})",
           "value": f"{without * 1000 / STARTS:.2f} ms, with the front {added_ms:+.3f} ms",
           "aim": f"at most +{START_AIM_MS} ms", "ok": added_ms <= START_AIM_MS}
    for line in output_of([str(folder / "shim_bench")]).splitlines():
        found = re.match(r"(post.*?)\s+(\d+)\s+[\d.]+\s+[\d.]+\s+(-?[\d.]+)$", line)
        if found is None:
            continue
        added = float(found[3])
        yield {"name": f"cost, {found[1]}, {found[2]} queue pairs", "value": f"{added:+.1f} ns",
               "aim": f"at most +{POST_AIM_NS:.0f} ns", "ok": added <= POST_AIM_NS}
