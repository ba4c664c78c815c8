"""What flows on a live fabric do when switches change their hash, when traffic that Espalier does not
know fills a link, and when a link loses packets. The tests of the lab measure it; this reads their figures.
"""

import re
import subprocess
import sys

TARGETS = ["main_job_test", "espalier", "espalier-controller", "espalier-agent", "espalier-engine",
           "espalier-traffic"]

MOST_SECONDS_UNTIL_LEFT = 10.0

# For each test: what it prints, and the names and aims of the figures in it.
REHASH = r"(\d+) of 16 flows left their paths; all are back on them after ([\d.]+) s"
BACKGROUND = r"2 flows of 12 MB beside a foreign flow on \w+: slowest ([\d.]+) s \(alone: ([\d.]+) s\)"
LOSSY = r"[^\n]*\nflows leave it after ([\d.-]+) s and return ([\d.-]+) s after it is healed"


def check(name, value, aim, ok):
    return {"name": f"faults, {name}", "value": value, "aim": aim, "ok": bool(ok)}


def figures(folder, test, pattern):
    """The figures that a test prints, and whether it passed."""
    done = subprocess.run([str(folder / "main_job_test"), f"--gtest_filter={test}"], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    found = re.search(pattern, done.stdout)
    if found is None:
        sys.exit(f"tests/acceptance/bursts: {test} printed no figures:\n" + (done.stdout + done.stderr)[-4000:])
    print(found.group(0), file=sys.stderr, flush=True)
    return [float(text) for text in found.groups()], done.returncode == 0


def checks(folder, seeds, quick):
    del seeds
    (left, seconds), passed = figures(folder, "RehashTest.*", REHASH)
    yield check("two leaves rehashed: all 16 flows on their paths again, none dead, seconds", seconds,
                f"the test passes ({left:.0f} flows had left theirs)", passed)
    if quick:
        return
    (slowest, alone), passed = figures(folder, "BackgroundTest.*", BACKGROUND)
    yield check("two flows beside a foreign one: slowest / alone", round(slowest / alone, 2),
                "the test passes (a quarter of the bytes at most over the filled link)", passed)
    (until_left, until_back), passed = figures(folder, "LossyLinkTest.*", LOSSY)
    yield check("link with 10 % loss: seconds until its flows have left it", until_left,
                f"at most {MOST_SECONDS_UNTIL_LEFT}", passed and until_left <= MOST_SECONDS_UNTIL_LEFT)
    yield check("link with 10 % loss: seconds from its healing until flows use it, once", until_back,
                "the test passes (no flapping)", passed)
