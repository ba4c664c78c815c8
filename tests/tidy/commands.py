#!/usr/bin/env python3
"""Checks the commands that documents show.

usage: tests/tidy/commands.py --program FILE [--root DIR]

Every `espalier ...` in a document, in text or in a block of code, must name a command and options that the program
has, and programs of this repository that a block names (deploy/..., tests/...) must exist. A block of code without
a language shows commands, one a line, or behind prompts with what they print. It is one of these:
  executed      its commands need no controller, no lab and no other machine (EXECUTED). They run in the order of
                the document in one folder, must succeed, and print what the block shows.
  tested        the table TESTED names the tests that run its commands; their sources must name each of them.
  not executed  the comment `<!-- not executed: REASON -->` is the line above it.
Exit code 0 if all is well, 1 if not.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import documents
import help_texts

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)")
NOT_EXECUTED = re.compile(r"<!-- not executed: (\S.*?) -->$")
PROMPT = re.compile(r"^[\w ]*\$ ")
OURS = re.compile(r"(?<![\w/.-])((?:deploy|tests)/[\w/-]+(?:\.json)?)(?![\w/.-]*[*{])")
# What a test must name of a command, beside commands of espalier.
PROGRAM = re.compile(r"(?<![\w./-])(espalier-[a-z]+|ib_\w+|deploy/[\w/-]+)(?![\w/])")
# Commands of espalier that need nothing but files, and programs that prepare these.
EXECUTED = {"topology", "forest", "schedule", "program", "assign", "simulate"}
PREPARING = {"printf", "sed"}
# History, and what the program itself writes.
LEFT_OUT = ("CHANGELOG.md", "docs/decisions.md", "docs/cli.md")
# Blocks whose commands run in tests that need a lab, root or more time: document, a part of a line, tests.
TESTED = [
    ("README.md", "espalier explain h0:4294967297", ["tests/deploy/cli/operator/operator_commands_test.cc"]),
    ("CONTRIBUTING.md", "deploy/setup", ["tests/run"]),
    ("docs/evaluation.md", "simulate --topology paper.json", ["tests/deploy/cli/offline_golden.py"]),
    ("docs/evaluation.md", "simulate paper", ["tests/deploy/cli/planning/simulate_commands_test.cc"]),
    ("docs/evaluation.md", "simulate cluster", ["tests/deploy/cli/planning/cluster_commands_test.cc",
                                                "tests/deploy/simulation/run_test.cc"]),
    ("docs/evaluation.md", "espalier-figures", ["tests/controller/offline/evaluation/figures_test.py"]),
    ("docs/lab.md", "espalier lab traffic", ["tests/deploy/cli/lab/lab_commands_test.cc"]),
    ("docs/operating.md", "espalier token make", ["tests/deploy/cli/setup/key_commands_test.cc",
                                                  "tests/deploy/cli/operator/operator_commands_test.cc"]),
    ("docs/operating.md", "espalier links --down", ["tests/deploy/cli/lists/list_commands_test.cc"]),
    ("docs/operating.md", "espalier job start", ["tests/deploy/cli/operator/operator_commands_test.cc"]),
    ("docs/rdma.md", "ib_write_bw -d rxe0 -x 1 10.1.0.1", ["tests/rdma/shim_test.cc"]),
    ("docs/rdma.md", "espalier lab rdma --host h2", ["tests/rdma/two_machines_test.cc",
                                                     "tests/deploy/cli/lab/lab_commands_test.cc"]),
    ("docs/start.md", "deploy/packages/build", ["tests/run"]),
    ("docs/start.md", "espalier keys make", ["tests/deploy/packages/first_steps"]),
    ("docs/start.md", "espalier-controller", ["tests/deploy/packages/images", "tests/deploy/packages/unit_steps"]),
    ("docs/start.md", "espalier-agent", ["tests/deploy/packages/images", "tests/deploy/packages/unit_steps"]),
    ("docs/start.md", "espalier agents", ["tests/deploy/packages/first_steps"]),
    ("docs/start.md", "espalier flows", ["tests/deploy/packages/first_steps"]),
]


class Commands:
    """The commands of the program and their options, read from its help when they are first asked for."""

    def __init__(self, program):
        self.program, self.known = program, {}

    def of(self, path):
        if path not in self.known:
            _, sections = help_texts.parse(help_texts.read_help(self.program, path))
            names, options = set(), set()
            for section, items in sections.items():
                for name, _ in items:
                    if section.lower().startswith(("subcommand", "command")):
                        names.add(name.split()[0])
                    options |= set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", name))
            self.known[path] = names, options
        return self.known[path]

    def path_of(self, words):
        """The command that the words after `espalier` name, without its arguments."""
        path = ()
        for word in words:
            if word not in self.of(path)[0]:
                break
            path += (word,)
        return path

    def faults_of(self, words):
        """What is wrong with the words after `espalier`."""
        path, options = (), self.of(())[1]
        for at, word in enumerate(words):
            names, _ = self.of(path)
            if not names or word.startswith("-"):
                break
            choices = word.split("|")
            if unknown := [name for name in choices if name not in names]:
                if re.fullmatch(r"[A-Z]+|…|\.\.\.", word) or word == "complete":  # any of them; hidden
                    return
                yield f"there is no command `espalier {' '.join((*path, unknown[0]))}`"
                return
            path += (choices[0],)
            options = options | self.of(path)[1]
        for word in words:
            if word == "--":
                break
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", word):
                if option not in options:
                    yield f"`espalier {' '.join(path)}` has no option {option}"


def split(text):
    text = re.split(r"\s[#|>&;]|\s#", text + " ")[0]
    return [word for word in re.sub(r"[\[\]]", " ", text).split() if word not in ("$",)]


class Block:
    """A block of code: its first line's number, its lines, and the reason why it is not executed."""

    def __init__(self, first, lines, language, reason):
        self.first, self.lines, self.language, self.reason = first, lines, language, reason

    def commands(self):
        """(number, command, lines that it prints) of each command. Without prompts every line is a command."""
        prompts = any(PROMPT.match(line) for line in self.lines)
        found, continues = [], False
        for number, line in enumerate(self.lines, self.first):
            if continues:
                found[-1][1] += line
            elif PROMPT.match(line) or not prompts and line.strip() and not line.startswith("#"):
                found.append([number, PROMPT.sub("", line), []])
            elif found:
                found[-1][2].append(line)
            continues = found and not found[-1][2] and found[-1][1].endswith("\\")
            if continues:
                found[-1][1] = found[-1][1][:-1]
        return found


def blocks(text):
    lines, at = text.splitlines(), 0
    while at < len(lines):
        if found := FENCE.match(lines[at]):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```"))
            marker = NOT_EXECUTED.match(lines[at - 1]) if at else None
            yield Block(at + 2, lines[at + 1:end], found[1], marker and marker[1])
            at = end
        at += 1


class Check:
    def __init__(self, root, program, tested=tuple(TESTED), fewest=12):
        self.root, self.program, self.commands, self.tested, self.fewest = root, program, Commands(program), tested, fewest
        self.executed, self.used = 0, set()

    def faults(self):
        for name in documents.list_documents(self.root):
            text = (self.root / name).read_text()
            if name in LEFT_OUT or documents.is_generated(text):
                continue
            for number, line in enumerate(documents.without_code_blocks(text), 1):
                for found in documents.CODE.finditer(line):
                    if found[2].startswith("espalier "):
                        for fault in self.commands.faults_of(split(found[2])[1:]):
                            yield f"{name}:{number}", fault
            with tempfile.TemporaryDirectory() as folder:
                for block in blocks(text):
                    if not block.language:
                        yield from self.faults_of_block(name, block, folder)
        for row, (name, part, _) in enumerate(self.tested):
            if row not in self.used:
                yield name, f"TESTED has a line for \"{part}\", and no block has it (remove the line)"
        if self.executed < self.fewest:
            yield "all documents", f"only {self.executed} commands were executed, so the blocks are not found"

    def faults_of_block(self, name, block, folder):
        tests = []
        for row, (document, part, files) in enumerate(self.tested):
            if document == name and any(part in line for line in block.lines):
                self.used.add(row)
                tests += files
        for number, command, printed in block.commands():
            place = f"{name}:{number}"
            for path in OURS.findall(command):
                if not (self.root / path).exists():
                    yield place, f"there is no {path}"
            words = split(command)
            if words[0] == "espalier":
                yield from ((place, fault) for fault in self.commands.faults_of(words[1:]))
            if block.reason:
                continue
            if tests:
                yield from ((place, fault) for fault in self.untested(command, words, tests))
            elif words[0] in PREPARING or words[0] == "espalier" and words[1] in EXECUTED:
                yield from ((place, fault) for fault in self.failures(command, printed, folder))
            else:
                yield place, (f"`{command}` is neither executed nor in a test (put <!-- not executed: REASON --> above "
                              "the block, or name its test in tests/tidy/commands.py, or the block's language)")

    def untested(self, command, words, tests):
        """What the sources of the tests do not name of a command."""
        sources = ""
        for test in tests:
            if not (self.root / test).exists():
                yield f"there is no test {test}"
                return
            sources += (self.root / test).read_text()
        if words[0] == "espalier":
            path = self.commands.path_of(words[1:])[:2]
            if not re.search(r"(?<![\w-])" + r"[\"', ]+".join(path) + r"(?![\w-])", sources):
                yield f"`espalier {' '.join(path)}` is not in {', '.join(tests)}"
        for program in PROGRAM.findall(command.split(" #")[0]):
            if program not in sources:
                yield f"`{program}` is not in {', '.join(tests)}"

    def failures(self, command, printed, folder):
        self.executed += 1
        place = str(pathlib.Path(self.program).parent)
        done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120,
                              check=False, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, PATH=place + ":" + os.environ["PATH"]))
        if done.returncode != 0:
            yield f"`{command}` failed: " + done.stderr.strip()[-200:]
        shown = [line.rstrip() for line in printed if line.strip()]
        if shown != [line.rstrip() for line in done.stdout.splitlines()][:len(shown)]:
            yield f"`{command}` prints something else:\n" + done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the built program `espalier`")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project's folder")
    arguments = parser.parse_args()
    check = Check(arguments.root, str(arguments.program.resolve()))
    faults = list(check.faults())
    for place, fault in faults:
        print(f"{place}: {fault}")
    print(f"{check.executed} commands were executed, and {len(TESTED)} blocks are in other tests")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
