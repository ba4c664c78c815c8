"""Finds words that the glossary has replaced: those of retired_words.txt, and of the glossary's column "not"."""
import re
import subprocess

import documents

SOURCES = (".cc", ".h", ".c", ".proto", ".py", ".js", ".json", ".conf", ".html", ".go")
LEFT_OUT = re.compile(r"CHANGELOG\.md$|docs/clean-install\.md$|docs/decisions\.md$|tests/tidy/|tests/acceptance/parts/words_examples\.py$|tests/data/|.*/(corpus|golden)/")
COMMENT = re.compile(r"//.*|/\*.*?\*/|^\s*(?:#|\*).*")
NOT_A_COMMENT = re.compile(r"^\s*#\s*(?:include|define|if|ifdef|ifndef|elif|else|endif|pragma|undef|error)\b|^\s*#!")
# Words of the column "not" that have other senses, too, and so cannot be looked for.
AMBIGUOUS = {
    "a start", "an end", "answers", "beat", "chain", "deep", "degraded", "direct", "dirty", "doubt", "element",
    "escape", "expectation", "fits", "given up", "line", "live", "look", "lower", "mapped", "meeting", "membership",
    "peer", "plan", "plans", "proof", "proven", "question", "read", "safety", "said", "seen", "slots", "spare",
    "strand", "stranded", "streamed", "waiting", "way", "word",
}
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Word:
    def __init__(self, line):
        scope, _, rest = line.rpartition(": ") if line.startswith(("identifier: ", "text: ")) else ("", "", line)
        self.word, _, self.instead = (part.strip() for part in rest.partition("->"))
        if not self.instead:
            raise ValueError(f"retired_words.txt: \"{line}\" says nothing to write instead (WORD -> OTHER)")
        self.in_identifiers = scope != "text"
        self.in_text = scope != "identifier"
        self.parts = " " + " ".join(self.word.lower().split()) + " "
        self.pattern = re.compile(r"(?<![\w-])" + r"\s+".join(map(re.escape, self.word.split())) + r"(?![\w-])", re.I)


def read_words(path):
    return [Word(line) for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def not_column(text):
    """(word, name) of the column "not" of the glossary's tables. "WORD (in prose)" is no word to look for."""
    column = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if not line.startswith("|"):
            column = None
        elif column is None:
            column = cells.index("not") if "not" in cells else -1
        elif 0 < column < len(cells):
            for word in re.split("[,;]", cells[column]):
                word = word.strip().strip('"`')
                if word and "(" not in word and not set(word) <= set("-"):
                    yield word, cells[1]


def read_glossary(path):
    """The words of the glossary that have no other sense."""
    entries = [entry for entry in not_column(path.read_text())] if path.exists() else []
    return [Word(f"text: {word} -> {name}") for word, name in entries if word.lower() not in AMBIGUOUS]


def parts_of(name):
    return " " + " ".join(PART.findall(name)).lower() + " "


def without_old_column(text):
    """The glossary without the column that lists the replaced words, lines kept."""
    lines, column = [], None
    for line in text.splitlines():
        cells = line.split("|")
        if not line.startswith("|"):
            column = None
        elif column is None:
            heads = [cell.strip().lower() for cell in cells]
            column = next((i for i, head in enumerate(heads) if head == "not" or head.startswith("replace")), -1)
        if column is not None and 0 <= column < len(cells):
            cells[column] = ""
            line = "|".join(cells)
        lines.append(line)
    return "\n".join(lines)


def looked_at(name, text):
    """(line, texts to search for phrases, identifiers) of each line of a file."""
    if name.endswith(".md"):
        if name == "docs/glossary.md":
            text = without_old_column(text)
        for number, line in enumerate(text.splitlines(), 1):
            # What stands in code quotes is a name of the program's; it is looked at there.
            yield number, [documents.CODE.sub("Code", line)], []
        return
    for number, line in enumerate(text.splitlines(), 1):
        strings = STRING.findall(line)
        bare = STRING.sub('""', line)
        code = COMMENT.sub("", bare)
        comments = [] if NOT_A_COMMENT.match(line) else COMMENT.findall(bare)
        # Names of fields and metrics stand in quotes, too.
        names = [string for string in strings if " " not in string]
        yield number, strings + comments, IDENTIFIER.findall(code) + names


def find_retired(root, words):
    """(place, word, what to write instead), one for each line and word."""
    any_text = re.compile("|".join(word.pattern.pattern for word in words if word.in_text) or "(?!)", re.I)
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for name in sorted(names):
        if not name.endswith(SOURCES + (".md",)) or LEFT_OUT.match(name) or not (root / name).exists():
            continue
        for word in words:
            if word.in_identifiers and word.parts in parts_of(name):
                yield name, word
        for number, texts, identifiers in looked_at(name, (root / name).read_text(errors="replace")):
            if not texts and not identifiers:
                continue
            joined = " ".join(texts)
            parts = " |".join(map(parts_of, identifiers))
            has_text = any_text.search(joined)
            for word in words:
                if (has_text and word.in_text and word.pattern.search(joined)) or (word.in_identifiers and word.parts in parts):
                    if not re.search(r"\bdeprecated\b", text_at(root, name, number), re.I):
                        yield f"{name}:{number}", word


def text_at(root, name, number):
    return (root / name).read_text(errors="replace").splitlines()[number - 1]
