"""Check the help texts of a program at every level."""
import re
import subprocess

# A text that begins with one of these words does not name its subject.
WEAK_STARTS = {
    "a", "an", "and", "as", "at", "both", "but", "by", "for", "from", "he", "her", "his", "how", "if", "in", "into", "it",
    "its", "likewise", "nor", "of", "on", "or", "others", "she", "so", "such", "than", "that", "their", "them", "then",
    "these", "they", "this", "those", "to", "too", "what", "where", "which", "who", "whom", "whose", "with", "without",
    "yet",
}
# Exceptions, which are plain although they begin with a preposition.
PLAIN_STARTS = ("at most", "at least")
ITEM = re.compile(r"^  (\S.*?)(?: {2,}(\S.*))?$")


def read_help(program, path):
    answer = subprocess.run([program, *path, "--help"], capture_output=True, text=True, timeout=30, check=False)
    return answer.stdout


def parse(text):
    """(summary, {section: [(name, text)]}) of one help text."""
    lines = text.splitlines()
    summary, sections, section, item = [], {}, None, None
    for line in lines:
        if line.startswith("Usage:") or re.match(r"^usage: ", line):
            section = "usage"
        elif re.match(r"^[A-Z][\w ,-]*:$", line):
            section, item = line[:-1], None
            sections[section] = []
        elif section is None:
            summary.append(line.strip())
        elif section == "usage" or not line.strip():
            continue
        elif line.startswith("    ") and item is not None:
            item[1] = (item[1] + " " + line.strip()).strip()
        elif match := ITEM.match(line):
            item = [match[1], (match[2] or "").strip()]
            sections[section].append(item)
    return " ".join(summary).strip(), sections


def read_texts(program, path=()):
    """(where, text) of the program's help of every level."""
    summary, sections = parse(read_help(program, path))
    place = " ".join(["espalier", *path])
    yield place, summary
    for section, items in sections.items():
        for name, text in items:
            word = name.split()[0]
            if word.startswith("-h") or word.startswith("--help"):
                continue  # the library's
            if section.lower().startswith(("subcommand", "command")):
                yield from read_texts(program, (*path, word))
            elif section not in ("Examples", "Exit codes", "Environment"):
                yield f"{place} {word.split(',')[-1]}", text


def fault_of(text):
    """What is wrong with a help text, or none."""
    if not text:
        return "is empty"
    first = re.match(r"[\"'(\[]*([\w-]+)", text)
    if not first:
        return "begins with no word"
    if text[0].islower():
        return "begins with a small letter"
    if first[1].lower() in WEAK_STARTS and not text.lower().startswith(PLAIN_STARTS):
        return f"begins with \"{first[1]}\": begin with a verb or a noun"
    return None


def find_faults(program):
    """(where, text, what is wrong); texts that end with another mark than most are wrong, too."""
    texts = list(read_texts(program))
    ends = [text.endswith(".") for _, text in texts if text]
    usual = sum(ends) * 2 > len(ends)
    for where, text in texts:
        fault = fault_of(text)
        if fault is None and text.endswith(".") != usual:
            fault = "ends without a period, and most have one" if usual else "ends with a period, and most have none"
        if fault:
            yield where, text, fault
