#!/usr/bin/env python3
"""Check that links within the documents have a target.

usage: tests/tidy/links.py [--root DIR] [FILE ...]

Prints one line for each link or picture of a Markdown file whose target is not a file of the repository, or
not a heading of a document, and for each source file or folder that a document names and that does not exist
(`controller/links/link_health` stands for its .h or .cc); exit code 1 if there are any. Network addresses are not checked. Links may name
documents that are not written yet, which "missing documents" in tests/tidy/prose_limits.json lists.
  FILE  Check only these documents (default: all)
"""
import argparse
import functools
import json
import pathlib
import posixpath
import re
import sys

sys.dont_write_bytecode = True

import documents  # noqa: E402


# A path of a source file or of a folder, without a pattern.
SOURCE = re.compile(r"`((?:agent|collective|common|controller|deploy|proto|tests)/[\w./-]*\w)/?`")


def find_lost_sources(root, names):
    """What documents name in the source tree, and what is not there. Old decisions may name what is gone."""
    for name in names:
        if name.endswith("decisions.md"):
            continue
        text = "\n".join(documents.without_code_blocks((root / name).read_text()))
        for number, line in enumerate(text.split("\n"), 1):
            for path in SOURCE.findall(line):
                if "NAME" not in path and not any((root / (path + end)).exists() for end in ("", ".h", ".cc", ".c")):
                    yield f"{name}:{number}: {path} does not exist"


def find_broken(root, names, missing=()):
    @functools.lru_cache(maxsize=None)
    def anchors_of(name):
        return documents.anchors((root / name).read_text())

    for name in names:
        for line, target in documents.links((root / name).read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            if there in missing:
                continue
            if there.startswith("..") or not (root / there).exists():
                yield f"{name}:{line}: {target} leads to no file of the repository"
            elif anchor and there.endswith(".md") and anchor not in anchors_of(there):
                yield f"{name}:{line}: {target} leads to no heading of {there}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    limits = json.loads((arguments.root / "tests/tidy/prose_limits.json").read_text())
    missing = [name for name in limits.get("missing documents", []) if not (arguments.root / name).exists()]
    names = arguments.files or documents.list_documents(arguments.root)
    broken = [*find_broken(arguments.root, names, missing), *find_lost_sources(arguments.root, names)]
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
