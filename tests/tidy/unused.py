#!/usr/bin/env python3
"""Find functions, enumerators and constants of the product that nothing in the product uses.

usage: tests/tidy/unused.py [--root DIR]

A name counts as unused if it stands only where it is declared: once in a header, and on lines without
indentation in sources, as definitions do. Tests do not count as use. So a name that two classes share is never
reported, and what is reported is unused. Exit code 1 if there is any.
"""
import argparse
import pathlib
import re
import subprocess
import sys

PRODUCT = ("agent", "collective", "common", "controller", "deploy", "proto")
TOKENS = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)
NAME = re.compile(r"[A-Za-z_]\w*")
# A function with its type before it; a constant or an enumerator.
DECLARED = re.compile(r"^\s*(?!return\b|else\b)(?:[\w:<>,*&\[\] ]*[\w>*&\]] [*&]?)([A-Za-z_]\w*)\(|"
                      r"^\s*(?:static |constexpr |inline |const )*(?:[\w:<>]+ )?(k[A-Z]\w*)\b(?! \()")
DEFINED = re.compile(r"(?:[\w>*&] [*&]?|::)([A-Za-z_]\w*)\(")
# Used by others than the product's sources.
KEPT = {
    "do_allocate", "do_deallocate", "do_is_equal", "is_steady",  # the standard library
    "CheckInvariants",  # tests call it in storms
    "NodeCount", "LeafNode", "Rate", "under_way",  # what a class has, which tests of the class go through
    "lookups", "lists_made", "comparisons", "StartsOf",  # counts of work, which tests bound
}
INTERFACES = re.compile(
    r"agent/local/espalier_agent\.h|agent/local/local_protocol\.h|agent/nccl/|agent/verbs/|"
    r"collective/client/|"   # libraries for programs
    r"common/sim/|agent/sim/|deploy/lab/|deploy/demo/|"  # for simulations and labs, of which tests are the most
    r"agent/dpdk/packet/")   # formats, written out in full


def without_comments(text):
    """The same lines without comments and texts."""
    return TOKENS.sub(lambda found: '""' if found[0][0] in "\"R'" else "\n" * found[0].count("\n"), text)


def read_product(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *PRODUCT], cwd=root, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {name: without_comments((root / name).read_text(errors="replace")) for name in sorted(set(names))
            if name.endswith((".h", ".cc", ".c")) and (root / name).exists()}


def find_unused(root):
    """(place, name)"""
    sources = read_product(root)
    in_headers, used, declared = {}, set(), {}
    for name, text in sources.items():
        is_header = name.endswith(".h")
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#"):
                if "include" not in line:
                    used.update(NAME.findall(line))
                continue
            for word in NAME.findall(line):
                if is_header:
                    in_headers[word] = in_headers.get(word, 0) + 1
                elif line[0] in " \t{}()" or word not in DEFINED.findall(line)[:1]:
                    used.add(word)
            if is_header and not INTERFACES.match(name):
                for function, constant in DECLARED.findall(line):
                    declared.setdefault(function or constant, f"{name}:{number}")
    for word, place in sorted(declared.items(), key=lambda entry: entry[1]):
        if in_headers[word] == 1 and not word.startswith(("_", "ibv_")) and word not in used | KEPT:
            yield place, word


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    unused = list(find_unused(parser.parse_args().root))
    for place, name in unused:
        print(f"{place}: {name} is used by nothing in the product (delete it with its tests)")
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
