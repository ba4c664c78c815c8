#!/usr/bin/env python3
"""Check the walks through the code in docs/architecture.md.

usage: tests/tidy/walks.py [--json] [--root DIR]

Prints the files and folders that each walk enters, and how often it returns to one that an earlier step named.
Exit code 1 if a walk returns to a file, or names one that does not exist.
  --json   Print {"walks": [{"name", "files", "returns", "missing"}]}
"""
import argparse
import json
import pathlib
import re
import sys

WALK = re.compile(r"^\*\*(.+)\*\*$")
STEP = re.compile(r"^\d+\. ")
FILE = re.compile(r"`((?:agent|collective|common|controller|deploy|proto)/[\w/.]+)`")


def read_walks(text):
    """(name, [files of each step]) of the section "Four walks through the code"."""
    section = text.partition("\n## Four walks through the code\n")[2].partition("\n## ")[0]
    walks = []
    for line in section.splitlines():
        if name := WALK.match(line):
            walks.append((name[1].replace("`", ""), []))
        elif walks and STEP.match(line):
            walks[-1][1].append(FILE.findall(line))
        elif walks and walks[-1][1]:
            walks[-1][1][-1] += FILE.findall(line)
    return walks


def measure(root):
    found = []
    for name, steps in read_walks((root / "docs/architecture.md").read_text()):
        files = [file for step in steps for file in step]
        found.append({"name": name, "files": len(set(files)),
                      "returns": sorted({file for file in files if files.count(file) > 1}),
                      "missing": [file for file in files if not (root / file).exists()]})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    walks = measure(arguments.root)
    if arguments.json:
        print(json.dumps({"walks": walks}))
    for walk in [] if arguments.json else walks:
        print(f"{walk['name']}: {walk['files']} files, {len(walk['returns'])} returns"
              + "".join(f"\n  returns to {file}" for file in walk["returns"])
              + "".join(f"\n  {file} does not exist" for file in walk["missing"]))
    return 0 if len(walks) == 4 and not any(walk["returns"] or walk["missing"] for walk in walks) else 1


if __name__ == "__main__":
    sys.exit(main())
