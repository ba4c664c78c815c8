"""What the shim does to programs of this machine: tests with fake copies of libibverbs, and its cost."""

import os
import re
import resource
import subprocess

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


def processor_ms_of_a_start(environment):
    """Of the child, as time by the clock depends on what else runs on this machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(STARTS):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000 / STARTS


def cost(folder):
    plain = {"PATH": "/usr/bin:/bin"}
    loaded = plain | {"LD_PRELOAD": str(folder.parent / "lib/reach/libespalier-verbs.so")}
    without = with_front = float("inf")
    for _ in range(ROUNDS):
        without = min(without, processor_ms_of_a_start(plain))
        with_front = min(with_front, processor_ms_of_a_start(loaded))
    added = with_front - without
    yield {"name": f"cost, start of /bin/true (processor time, least of {ROUNDS} rounds of {STARTS})",
           "value": f"{without:.3f} ms, with the front {added:+.3f} ms",
           "aim": f"at most +{START_AIM_MS} ms", "ok": added <= START_AIM_MS}
    for line in output_of([str(folder / "shim_bench")]).splitlines():
        found = re.match(r"(post.*?)\s+(\d+)\s+[\d.]+\s+[\d.]+\s+(-?[\d.]+)$", line)
        if found is None:
            continue
        added = float(found[3])
        yield {"name": f"cost, {found[1]}, {found[2]} queue pairs", "value": f"{added:+.1f} ns",
               "aim": f"at most +{POST_AIM_NS:.0f} ns", "ok": added <= POST_AIM_NS}
