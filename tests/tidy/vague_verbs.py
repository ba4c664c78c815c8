"""Finds short verbs for which the field has exact ones, in texts that operators read."""
import json
import re
import subprocess

import help_texts

# The last word of each line is what they are mostly used for.
VERBS = re.compile(
    r"\b(tells?|telling|told|"             # report
    r"says?|saying|said|"                  # state
    r"looks?|looking|looked|"              # inspect
    r"takes?|taking|took|taken|"           # accept
    r"lets?|letting|"                      # allow
    r"gives?|giving|gave|given|"           # assign
    r"leave|leaving|left|"                 # abandon
    r"puts?|putting|"                      # include
    r"comes?|coming|came|"                 # arrive
    r"goes|go|going|gone|went)\b", re.I)   # continue
# What the field says, and what stands in no other sense.
ALLOWED = re.compile(
    r"\b(?:take|takes|took|taken|taking) (?:precedence|part|effect|over|(?:\w+ )?out of (?:use|service))\b|"
    r"\bTakes several values\b|"
    # Packets, flows and ports take paths and links.
    r"\b(?:take|takes|took|taken) (?:\w+ ){0,3}(?:paths?|links?)\b|"
    r"\bwhich path (?:\w+ ){1,3}takes?\b|\bplace the machine takes\b|"
    # Work takes time.
    r"\btakes? (?:up to|about|at most) \w+ (?:seconds|minutes|hours)\b|"
    # Links are up and down.
    r"\b(?:come|comes|came|go|goes|went|gone) (?:up|down)\b|\b[Tt]ak(?:e|ing) (?:a link|\S+) down\b|"
    r"\bat given\b|\b(?:is|are|if|not|was) (?:\w+ )?given\b", re.I)
METRIC = re.compile(r'\bMake(?:Counter|Gauge|Gauges|Latency)\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*,?\s*)+)')
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def verbs_in(text):
    return VERBS.findall(ALLOWED.sub("", text))


def metrics(root):
    """(place, help) of the metrics that the sources make."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc", "*.h"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for name in sorted(names):
        if name.startswith("tests/") or not (root / name).exists():
            continue
        for call in METRIC.finditer((root / name).read_text(errors="replace")):
            parts = STRING.findall(call[1])
            yield f"{name}: {parts[0]}", "".join(parts[1:])


def events(root):
    """(place, text) of the meanings and remedies of events."""
    file = root / "controller/api/event-kinds.json"
    if not file.exists():
        return
    for kind in json.loads(file.read_text())["kinds"]:
        for field in ("meaning", "remedy"):
            yield f"event {kind['kind']}", kind[field]


def configuration(root):
    """(place, comment) of the lines that describe fields of configuration files."""
    for file in sorted(root.glob("*/**/config.proto")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if comment := re.search(r"//(.*)", line):
                yield f"{file.relative_to(root)}:{number}", comment[1].strip()


def find_vague(root, program):
    """(place, verb, text)"""
    texts = [*metrics(root), *events(root), *configuration(root)]
    if program is not None and program.exists():
        texts += help_texts.read_texts(program)
    for place, text in texts:
        for verb in verbs_in(text):
            yield place, verb, text
