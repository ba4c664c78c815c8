#!/usr/bin/env python3
"""Measure the structure of the sources: rooms, floors and arrows of folders, and sizes of classes.

usage: tests/tidy/structure.py [--root DIR] [--json] [--check] [FOLDER ...]

A room of a folder is one of its modules (a .h and the .cc with its name) or one of its folders. An arrow
leads from a room to another that one of its files includes. The floor of a room is the length of the
longest chain of arrows from it. Includes of a main.cc do not count, as it may include anything.
  FOLDER   Folders to measure in detail (default: controller and collective/forest)
  --check  Instead, exit with 1 and list the errors if folders include one another in a cycle, a
           function has more than 70 lines, a class more than 25 data members or 40 methods, a folder
           more than 12 modules, a class methods in two .cc files, or a .cc no header of its name
  --json   Print {"folders": [...], "circles": [...], "classes": [...], "lines": N}
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

MOST_FUNCTION_LINES = 70
MOST_MEMBERS = 25
MOST_METHODS = 40
MOST_MODULES = 12

# Intentionally larger; docs/decisions.md gives the reasons ("Limits of sizes").
LARGER_CLASSES = set()
LARGER_FUNCTIONS = {"tests/tidy/layers.h"}  # a table
# Not C++ interfaces of ours: exported C symbols, and one kernel for each instruction set.
NO_MODULE = re.compile(r"(/exports|/main|/kernels_\w+)\.cc$")

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
CLASS = re.compile(
    r"^(class|struct) (?:alignas\([^)]*\) )?(\w+)(?: final)?(?: : [^{;]*?)? ?\{\n(.*?)^\};", re.M | re.S)
NESTED = re.compile(r"^  (?:class|struct|enum|union)\b[^;]*?\{\n.*?^  \}[^\n]*;\n", re.M | re.S)
# The definition of a method at the level of a namespace.
METHOD = re.compile(
    r"^(?:[^\s#/{}()][^()\n]*?)?\b([A-Z]\w*)::(?:[A-Z]\w*::)*(?:~?\w+|operator[^(\n]*)\(", re.M)
NO_MEMBER = re.compile(r"(using|friend|static_assert|typedef|enum|class|struct|template)\b")


def read_sources(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.c"], cwd=root,
                           check=True, capture_output=True, text=True).stdout.split()
    return {name: (root / name).read_text() for name in names if (root / name).exists()}


def arrows_between(sources, room_of):
    """{room: rooms that it includes}, for all rooms that room_of tells of a file (None: no room)."""
    arrows = collections.defaultdict(set)
    for name, text in sources.items():
        here = room_of(name)
        if here is None:
            continue
        arrows[here]  # a room even if it includes nothing
        if name.endswith("/main.cc"):
            continue
        for included in INCLUDE.findall(text):
            there = room_of(included) if included in sources else None
            if there is not None and there != here:
                arrows[here].add(there)
    return dict(arrows)


def find_circles(arrows):
    """The sets of rooms that reach one another (Tarjan)."""
    index, low, stack, circles = {}, {}, [], []

    def visit(room):
        index[room] = low[room] = len(index)
        stack.append(room)
        for other in arrows.get(room, ()):
            if other not in index:
                visit(other)
                low[room] = min(low[room], low[other])
            elif other in stack:
                low[room] = min(low[room], index[other])
        if low[room] == index[room]:
            circle = []
            while True:
                circle.append(stack.pop())
                if circle[-1] == room:
                    break
            if len(circle) > 1:
                circles.append(sorted(circle))

    sys.setrecursionlimit(10_000)
    for room in arrows:
        if room not in index:
            visit(room)
    return sorted(circles)


def floors_of(arrows):
    """The number of floors; rooms in a cycle are on one floor."""
    home = {room: room for room in arrows}
    for circle in find_circles(arrows):
        home.update((room, circle[0]) for room in circle)
    below = collections.defaultdict(set)
    for room, others in arrows.items():
        below[home[room]] |= {home[other] for other in others if other in home} - {home[room]}
    heights = {}

    def height(room):
        if room not in heights:
            heights[room] = 1 + max((height(other) for other in below[room]), default=0)
        return heights[room]

    return max((height(room) for room in set(home.values())), default=0)


def measure_folder(sources, folder):
    def room_of(name):
        if not name.startswith(folder + "/"):
            return None
        inside = name[len(folder) + 1:]
        return inside.split("/")[0] + "/" if "/" in inside else inside.rsplit(".", 1)[0]

    arrows = arrows_between(sources, room_of)
    return {"folder": folder, "rooms": len(arrows),
            "loose_modules": sum(not room.endswith("/") for room in arrows),
            "floors": floors_of(arrows), "arrows": sum(map(len, arrows.values())),
            "circles": find_circles(arrows)}


def statements_of(body):
    """The statements in the body of a class, nested types left out."""
    body = NESTED.sub("", re.sub(r"//[^\n]*", "", body))
    statement, depth = "", 0
    for line in body.split("\n"):
        if not line.strip():
            continue
        statement += " " + line.strip()
        depth += sum(line.count(c) for c in "{(") - sum(line.count(c) for c in "})")
        if depth <= 0 and line.rstrip().endswith((";", "}", ":")):
            yield statement.strip()
            statement, depth = "", 0


def measure_classes(sources):
    classes = []
    for name, text in sources.items():
        if name.startswith("tests/"):
            continue
        for _, title, body in CLASS.findall(text):
            members = methods = 0
            for statement in statements_of(body):
                statement = re.sub(r"^(public|private|protected):\s*", "", statement)
                declared = re.split(r"[={]", statement)[0]
                while "<" in declared and (shorter := re.sub(r"<[^<>]*>", "", declared)) != declared:
                    declared = shorter
                if not statement or NO_MEMBER.match(statement):
                    continue
                if "(" in declared or "operator" in declared:
                    methods += 1
                elif not re.match(r"(static|constexpr|inline)\b", statement):
                    members += 1
            classes.append({"class": title, "file": name, "members": members, "methods": methods})
    return sorted(classes, key=lambda c: (-c["members"] - c["methods"], c["class"]))


def long_functions(sources):
    """(file, line, lines) of definitions at the level of a namespace."""
    start_of = re.compile(r"(?!namespace|class|struct|enum|union|using|typedef|template|extern)[A-Za-z_\[]")
    for name, text in sources.items():
        if name in LARGER_FUNCTIONS:
            continue
        start = None
        for number, line in enumerate(text.split("\n"), 1):
            if line == "}":
                if start is not None and number - start + 1 > MOST_FUNCTION_LINES:
                    yield name, start, number - start + 1
                start = None
            elif line[:1] in ("}", "#") or (line.endswith(";") and line[:1] not in (" ", "")):
                start = None
            elif start is None and start_of.match(line):
                start = number


def modules_by_folder(sources):
    """{folder: its modules} of the product."""
    folders = collections.defaultdict(set)
    for name in sources:
        if not name.startswith(("tests/", "docs/")):
            folder, _, file = name.rpartition("/")
            folders[folder].add(file.rpartition(".")[0])
    return folders


def divided_classes(sources):
    """(class, files) of classes of headers that have methods in several .cc files."""
    declared = collections.defaultdict(set)
    for name, text in sources.items():
        if name.endswith(".h"):
            for _, title, _ in CLASS.findall(text):
                declared[title].add(name)
    defined = collections.defaultdict(set)
    for name, text in sources.items():
        if not name.endswith(".cc") or name.startswith("tests/"):
            continue
        included = set(INCLUDE.findall(text))
        for title in METHOD.findall(text):
            for header in declared[title] & included:
                defined[title, header].add(name)
    return sorted((title, sorted(files)) for (title, _), files in defined.items() if len(files) > 1)


def check_modules(sources):
    """The errors in the division into folders, modules and classes."""
    large = {folder: len(modules) for folder, modules in modules_by_folder(sources).items()
             if len(modules) > MOST_MODULES}
    for folder, count in sorted(large.items()):
        yield f"{folder} has {count} modules (at most {MOST_MODULES}: divide it into rooms)"
    for title, files in divided_classes(sources):
        yield f"class {title} has methods in {' and '.join(files)} (make several classes of it)"
    alone = {name for name in sources if name.endswith(".cc") and not name.startswith("tests/")
             and not NO_MODULE.search(name) and name[:-3] + ".h" not in sources}
    for name in sorted(alone):
        yield f"{name}: has no header of its name"


def check(sources, circles, classes):
    wrong = [f"folders include one another: {', '.join(circle)}" for circle in circles]
    wrong += [f"{name}:{line}: a function of {lines} lines (at most {MOST_FUNCTION_LINES})"
              for name, line, lines in long_functions(sources)]
    wrong += check_modules(sources)
    for one in classes:
        if one["class"] not in LARGER_CLASSES and (one["members"] > MOST_MEMBERS
                                                  or one["methods"] > MOST_METHODS):
            wrong.append(f"{one['file']}: class {one['class']} has {one['members']} data members and "
                         f"{one['methods']} methods (at most {MOST_MEMBERS} and {MOST_METHODS})")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    sources = read_sources(args.root)
    own = {name: text for name, text in sources.items() if not name.startswith("tests/")}
    circles = find_circles(arrows_between(own, lambda name: name.rpartition("/")[0]))
    classes = measure_classes(sources)
    if args.check:
        wrong = check(sources, circles, classes)
        print("\n".join(wrong) or f"{len(sources)} files, {len(classes)} classes: within the limits")
        return 1 if wrong else 0
    result = {"folders": [measure_folder(own, folder.rstrip("/"))
                          for folder in args.folders or ("controller", "collective/forest")],
              "circles": circles, "classes": classes[:10],
              "lines": sum(text.count("\n") for text in own.values())}
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    for one in result["folders"]:
        print(f"{one['folder']}: {one['rooms']} rooms ({one['loose_modules']} of them loose modules) on "
              f"{one['floors']} floors, {one['arrows']} arrows, {len(one['circles'])} cycles")
    print(f"all sources: {result['lines']} lines, {len(circles)} cycles between folders")
    for circle in circles:
        print(f"  cycle: {', '.join(circle)}")
    print("largest classes:")
    for one in result["classes"]:
        print(f"  {one['class']:24} {one['members']:3} members {one['methods']:3} methods  {one['file']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
