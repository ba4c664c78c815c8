#!/usr/bin/env python3
"""Checks the commands that documents show.

usage: tests/tidy/commands.py --program FILE [--root DIR]

Every `espalier ...` in a document, in text or in a block of code, must name a command and options that the program
has. A line of a block that needs no controller, no lab and no other machine (espalier topology, forest, program and
assign) is executed, after `$ printf` lines that write its inputs, in one folder per document and in the order of the document, and must succeed. A block after the
comment `<!-- not executed: REASON -->` is not; with the reason `output` it shows no commands. Programs of this repository that a block names (deploy/..., tests/...)
must exist.
Exit code 0 if all is well, 1 if not.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import documents
import help_texts

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```")
NOT_EXECUTED = re.compile(r"<!-- *not executed: *(\S.*?) *-->")
PROMPT = re.compile(r"^(?:[\w ]*\$ )?(espalier(?: .*|$))")
OURS = re.compile(r"(?<![\w/.-])((?:deploy|tests)/[\w/-]+)(?![\w/.-]*[*{])")
EXECUTED = {"topology", "forest", "program", "assign"}
# History, and what the program itself writes.
LEFT_OUT = ("CHANGELOG.md", "docs/decisions.md", "docs/cli.md")


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
                    if section.lower().startswith("subcommand"):
                        names.add(name.split()[0])
                    options |= set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", name))
            self.known[path] = names, options
        return self.known[path]

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


def blocks(text):
    """(line, lines, why it is not executed) of every block of code."""
    lines, reason = text.splitlines(), None
    at = 0
    while at < len(lines):
        if found := NOT_EXECUTED.search(lines[at]):
            reason = found[1]
        elif FENCE.match(lines[at]):
            end = next(i for i in range(at + 1, len(lines)) if FENCE.match(lines[i]))
            yield at + 2, lines[at + 1:end], reason
            reason, at = None, end
        elif lines[at].strip():
            reason = None
        at += 1


def check(root, program):
    commands, executed = Commands(program), 0
    for name in documents.list_documents(root):
        text = (root / name).read_text()
        if name in LEFT_OUT or documents.is_generated(text):
            continue
        for number, line in enumerate(documents.without_code_blocks(text), 1):
            for found in documents.CODE.finditer(line):
                if found[2].startswith("espalier "):
                    for fault in commands.faults_of(split(found[2])[1:]):
                        yield f"{name}:{number}", fault
        with tempfile.TemporaryDirectory() as folder:
            for first, lines, reason in blocks(text):
                for number, line in enumerate(lines, first):
                    for path in OURS.findall(line):
                        if not (root / path).exists():
                            yield f"{name}:{number}", f"there is no {path}"
                    if line.startswith("$ printf ") and not reason:  # writes an input of the next commands
                        subprocess.run(["bash", "-c", line[2:]], cwd=folder, check=True, stdin=subprocess.DEVNULL)
                    found = PROMPT.match(line)
                    if not found or reason == "output":
                        continue
                    words = split(found[1])[1:]
                    yield from ((f"{name}:{number}", fault) for fault in commands.faults_of(words))
                    if reason or not words or words[0] not in EXECUTED or "[" in line or "|" in line:
                        continue
                    executed += 1
                    done = subprocess.run([program, *shlex.split(found[1], comments=True)[1:]], cwd=folder,
                                          capture_output=True, text=True, timeout=120, check=False,
                                          stdin=subprocess.DEVNULL)
                    if done.returncode != 0:
                        yield f"{name}:{number}", f"`{found[1]}` failed: " + done.stderr.strip()[-200:]
    if executed < 9:
        yield "all documents", f"only {executed} commands were executed, so the blocks are not found"
    print(f"{executed} commands were executed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the built program `espalier`")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project's folder")
    arguments = parser.parse_args()
    faults = list(check(arguments.root, str(arguments.program.resolve())))
    for place, fault in faults:
        print(f"{place}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
