#!/usr/bin/env python3
"""Says what tests/run ran: which tests were skipped and why, and how many passed and failed.

usage: tests/report.py LOGS            the closing lines, over all stages
       tests/report.py LOGS --stage S  exit code 1 where every test of the stage S was skipped

LOGS holds, for each stage that ran ctest, STAGE.log (what ctest printed) and STAGE.tests (what the
tests printed: ctest's LastTest.log).
"""
import pathlib
import re
import sys

TOTAL = re.compile(r"(\d+) tests? failed out of (\d+)")
NOT_RUN = re.compile(r"^\s*\d+ - (\S+) \(Skipped\)$", re.M)
ENTRY = re.compile(r"^\d+/\d+ Test(?:ing)?: (\S+)$", re.M)
CASE = re.compile(r"^\[ RUN      \] (\S+)\n((?:(?!\[ RUN).*\n)*?)\[  SKIPPED \] \1", re.M)


def reason_in(output):
    """The last words of a test before it gave up, without the place in the source."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not re.search(r":\d+: Skipped$", line)]
    return lines[-1] if lines else "no reason given"


def skipped_in(tests):
    """(name, reason) of all that were skipped: whole ctest entries, and cases of GoogleTest."""
    parts = re.split(r"^-{58,}$\n(?=\d+/\d+ Test)", tests, flags=re.M)
    skipped = []
    for part in parts:
        name = ENTRY.search(part)
        cases = CASE.findall(part)
        skipped += [(case, reason_in(text)) for case, text in cases]
        if "Test Skipped." in part and name and not cases:
            output = part.partition("Output:\n")[2].partition("\n<end of output>")[0]
            skipped.append((name.group(1), reason_in(output)))
    return skipped


def read_stage(logs, name):
    """(entries that ran, of them failed, of them skipped whole, [(name, reason)])"""
    log = (logs / f"{name}.log").read_text(errors="replace")
    totals = [tuple(map(int, found)) for found in TOTAL.findall(log)]
    tests = logs / f"{name}.tests"
    skipped = skipped_in(tests.read_text(errors="replace")) if tests.exists() else []
    return (sum(total for _, total in totals), sum(failed for failed, _ in totals),
            len(NOT_RUN.findall(log)), skipped)


def main():
    if len(sys.argv) not in (2, 4) or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if "--help" in sys.argv or "-h" in sys.argv else 2
    logs = pathlib.Path(sys.argv[1])
    if len(sys.argv) == 4:
        total, _, whole, skipped = read_stage(logs, sys.argv[3])
        if total == 0 or whole < total:
            return 0
        print(f"every test of the stage {sys.argv[3]} was skipped:")
        print("\n".join(f"  {name}: {reason}" for name, reason in skipped))
        return 1
    total = failed = whole = 0
    reasons = {}
    for log in sorted(logs.glob("*.log")):
        stage_total, stage_failed, stage_whole, skipped = read_stage(logs, log.stem)
        total, failed, whole = total + stage_total, failed + stage_failed, whole + stage_whole
        for name, reason in skipped:
            reasons.setdefault(f"{log.stem}: {reason}", []).append(name)
    for reason, names in reasons.items():
        print(f"skipped in {reason} ({len(names)}: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''})")
    print(f"{total - failed - whole} passed, {failed} failed, {sum(map(len, reasons.values()))} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
