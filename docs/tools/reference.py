#!/usr/bin/env python3
"""Makes the documents that are references of something else in the sources.

usage: docs/tools/reference.py [--check] [--root DIR]

  docs/configuration.md  from the comments of the configuration files' schemas (*/config.proto)
  docs/api.md            from controller/api/openapi.json
  docs/events.md         from controller/api/event-kinds.json
  --check  writes nothing; exit code 1, with what is wrong, where a document is not what it would be made
           to, a description is missing, or an example file does not show each field with its default
  --root   the project's folder (default: the one that this program is in)
"""
import argparse
import difflib
import itertools
import pathlib
import sys

sys.dont_write_bytecode = True  # nothing is left beside the sources

import api_reference  # noqa: E402
import configuration_reference  # noqa: E402
import event_reference  # noqa: E402

DOCUMENTS = {"docs/configuration.md": configuration_reference, "docs/api.md": api_reference,
             "docs/events.md": event_reference}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    faults = []
    for name, maker in DOCUMENTS.items():
        faults += maker.find_faults(arguments.root)
        if faults:
            continue  # what is missing cannot be written
        made, path = maker.make(arguments.root), arguments.root / name
        found = path.read_text() if path.exists() else ""
        if not arguments.check:
            path.write_text(made)
        elif made != found:
            faults.append(f"{name} is not up to date: run docs/tools/reference.py")
            faults += itertools.islice(difflib.unified_diff(
                found.splitlines(), made.splitlines(), name, "as it would be made", lineterm="", n=0), 20)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
