"""Asks aspell which words of the documents, and of what programs say, it and docs/words.txt do not know."""
import re
import shutil
import subprocess
import tempfile

import documents

SOURCES = ("agent", "collective", "common", "controller", "deploy", "proto")
# Lists of names of system calls in quotes.
LEFT_OUT = {"agent/engine/sandbox.cc"}
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Parts that are not words of a language: names in code, paths, numbers with units, placeholders.
NO_WORD = re.compile(r"\{[^{}]*\}|<[^<>]*>|https?:\S+|\S*[/_=@\\]\S*|\w*\d\w*|\b\w+\.(?:md|cc|h|json|conf|csv|py|txt)\b"
                     r"|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+(?:[A-Z][a-z]*)+\w*|--?[a-z][\w-]*|\b[A-Z]{2,}s?\b")
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


def is_missing():
    return shutil.which("aspell") is None


def cleaned(text):
    # Words with letters in code quotes (the "i" of "input" as its symbol) do not count, either.
    return NO_WORD.sub(" ", documents.LINK.sub(r"\1", re.sub(r"\w*(`+)(.+?)\1\w*", " ", text)))


def document_lines(root):
    for name in documents.list_documents(root):
        for number, line in enumerate(documents.without_code_blocks((root / name).read_text()), 1):
            yield f"{name}:{number}", cleaned(line)


def said_lines(root):
    """Quoted texts of the programs that look like sentences: help, errors, help of metrics."""
    names = subprocess.run(["git", "ls-files", *(f"{folder}/*.{end}" for folder in SOURCES for end in ("cc", "h"))],
                           cwd=root, check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        if name in LEFT_OUT or not (root / name).exists():
            continue
        for number, line in enumerate((root / name).read_text().splitlines(), 1):
            if line.lstrip().startswith(("#include", "//")):
                continue
            for text in STRING.findall(line):
                if text.count(" ") >= 2:
                    yield f"{name}:{number}", cleaned(re.sub(r"\\[nt\"]", " ", text))


def find_unknown(root, word_file):
    """{word: first place} of the words that are in no dictionary."""
    known = {line.strip() for line in word_file.read_text().splitlines() if line.strip() and line[0] != "#"}
    places = {}
    for place, text in (*document_lines(root), *said_lines(root)):
        for word in WORD.findall(text):
            places.setdefault(word.removesuffix("'s"), place)
    with tempfile.NamedTemporaryFile("w", suffix=".pws") as own:
        own.write("\n".join([f"personal_ws-1.1 en {len(known)} utf-8", *sorted(known), ""]))
        own.flush()
        answer = subprocess.run(
            ["aspell", "list", "--lang=en", f"--personal={own.name}", "--encoding=utf-8", "--ignore=2"],
            input="\n".join(places), capture_output=True, text=True, check=True)
    return {word: places[word] for word in sorted(set(answer.stdout.split()), key=str.lower) if word in places}
