#!/usr/bin/env python3
"""Check the words that people read: documents, help, errors, metrics.

usage: tests/tidy/prose.py [--check] [--tighten] [--all] [--program FILE] [--root DIR]

  retired words  words of tests/tidy/retired_words.txt and of the glossary's column "not" in identifiers, texts in
                 quotes, comments and documents (aim: 0)
  sentences      words of the longest 5% of the sentences of a document written by hand (aim: 35)
  spelling       words that neither aspell nor docs/words.txt knows (aim: 0); skipped without aspell
  vague verbs    tell, say, look, take, let, give, leave, put, come, go in the help of metrics, in the meanings and
                 remedies of events, in comments of configuration files, and in help texts (aim: 0); phrases of the field are allowed (vague_verbs.py)
  help           texts of `espalier --help`, of every level, that do not begin with a verb or a noun (aim: 0);
                 skipped without --program
Prints the current numbers with the worst places.
  --check        Also exit with 1 if a number is above its limit in tests/tidy/prose_limits.json
  --tighten      Lower the limits to the current numbers, but never raise one; if the file is missing, write
                 all limits
  --all          Print all places, not only the worst ten
  --program      The built program `espalier`
  --root         The project's folder (default: the one with this program)
"""
import argparse
import json
import math
import pathlib
import sys

sys.dont_write_bytecode = True

import documents  # noqa: E402
import help_texts  # noqa: E402
import retired_words  # noqa: E402
import spelling  # noqa: E402
import vague_verbs  # noqa: E402

LIMITS = "tests/tidy/prose_limits.json"
LONGEST = 35  # words of a sentence, at the 95th percentile of a document


def percentile_95(numbers):
    """The least of the numbers that at least 95% of them do not exceed."""
    return sorted(numbers)[math.ceil(0.95 * len(numbers)) - 1]


class Report:
    def __init__(self, limits, shown):
        self.limits = limits
        self.shown = shown
        self.failures = []
        self.lower = {}

    def skip(self, check, why):
        print(f"{check}: skipped, {why}")
        self.lower[check] = (self.limits or {}).get(check)

    def take(self, check, number, aim, places):
        """A number of the whole project."""
        limit = number if self.limits is None else self.limits.get(check, aim)
        self.say(check, number, limit, aim, places)
        self.lower[check] = min(number, limit) if number > aim else aim
        if number > limit:
            self.failures.append(f"{check}: {number}, and its limit is {limit}")

    def take_documents(self, check, numbers, aim, places):
        """A number of each document; a document without its own limit has the aim."""
        limits = numbers if self.limits is None else self.limits.get(check, {})
        worst = max(numbers.values(), default=0)
        above = sorted((name for name in numbers if numbers[name] > aim), key=lambda name: -numbers[name])
        self.say(check, worst, max([aim, *limits.values()]), aim, places)
        for name in above:
            print(f"    {name}: {numbers[name]}")
        self.lower[check] = {name: min(numbers[name], limits.get(name, aim)) for name in sorted(above)}
        for name in above:
            if numbers[name] > limits.get(name, aim):
                self.failures.append(f"{check}: {name} has {numbers[name]}, and its limit is {limits.get(name, aim)}")

    def say(self, check, number, limit, aim, places):
        print(f"{check}: {number} (limit {limit}, aim {aim})")
        for place in places[:self.shown]:
            print(f"  {place}")
        if len(places) > (self.shown or len(places)):
            print(f"  and {len(places) - self.shown} more (--all)")


def check_sentences(root, report):
    numbers, found = {}, []
    for name in documents.list_documents(root):
        text = (root / name).read_text()
        if documents.is_generated(text) or name.startswith("tests/"):
            continue
        counted = [(documents.count_words(said), line, said) for line, said in documents.sentences(text)]
        if counted:
            numbers[name] = percentile_95([count for count, _, _ in counted])
            found += [(count, f"{name}:{line}: {count} words: {said[:90]}...") for count, line, said in counted
                      if count > LONGEST]
    found.sort(key=lambda entry: -entry[0])
    report.take_documents("sentences", numbers, LONGEST, [place for _, place in found])


def check_all(root, program, report):
    words = (retired_words.read_words(root / "tests/tidy/retired_words.txt")
             + retired_words.read_glossary(root / "docs/glossary.md"))
    retired = [f"{place}: \"{word.word}\": write \"{word.instead}\""
               for place, word in retired_words.find_retired(root, words)]
    report.take("retired words", len(retired), 0, retired)
    vague = [f"{place}: \"{verb}\": {text[:90]}" for place, verb, text in vague_verbs.find_vague(root, program)]
    report.take("vague verbs", len(vague), 0, vague)
    check_sentences(root, report)
    if spelling.is_missing():
        report.skip("spelling", "as aspell is missing (deploy/setup installs it)")
    else:
        unknown = spelling.find_unknown(root, root / "docs/words.txt")
        report.take("spelling", len(unknown), 0, [f"{place}: {word}" for word, place in unknown.items()])
    if program is None or not program.exists():
        report.skip("help", "as the program is not built" if program else "without --program")
    else:
        faults = [f"{where}: {fault}: {text[:90]}" for where, text, fault in help_texts.find_faults(program)]
        report.take("help", len(faults), 0, faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tighten", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    limits = arguments.root / LIMITS
    report = Report(json.loads(limits.read_text()) if limits.exists() else None, None if arguments.all else 10)
    check_all(arguments.root, arguments.program, report)
    if arguments.tighten:
        missing = [name for name in (report.limits or {}).get("missing documents", [])
                   if not (arguments.root / name).exists()]
        if missing:
            report.lower["missing documents"] = missing  # links.py reads it
        limits.write_text(json.dumps({check: limit for check, limit in report.lower.items() if limit is not None},
                                     indent=2) + "\n")
    for failure in report.failures:
        print(f"FAILED: {failure}")
    return 1 if arguments.check and report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
