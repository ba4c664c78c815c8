"""Read Markdown for the checks of documents: find prose, headings and links."""
import re
import subprocess

# Its first line says so.
GENERATED = re.compile(r"<!--.*\b(made|generated) (by|from)\b", re.I)

FENCE = re.compile(r"^ *(```|~~~)")
LIST_ITEM = re.compile(r"^ *(?:[-*+]|\d+[.)]) +")
TABLE_ROW = re.compile(r"^ *\|")
HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")
# The target of a link has no blanks; a title may follow it.
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)?)(?: \"[^\"]*\")?\)")
CODE = re.compile(r"(`+)(.+?)\1", re.S)
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|Fig|Sec|No|p|pp|ch)|\b[A-Z])\.$")


def list_documents(root):
    """The Markdown files that are or may be in the repository, by their paths from the root."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split()
    return sorted(name for name in names if (root / name).exists())


def is_generated(text):
    return GENERATED.match(text) is not None


def without_code_blocks(text):
    """The lines, with those of code blocks and comments empty."""
    lines, fence, comment = [], None, False
    for line in text.splitlines():
        match = FENCE.match(line)
        if fence:
            if match and match[1] == fence:
                fence = None
            lines.append("")
        elif match:
            fence = match[1]
            lines.append("")
        elif comment or line.startswith("<!--"):
            comment = "-->" not in line
            lines.append("")
        else:
            lines.append(line)
    return lines


def plain(text):
    """Without marks: a link is its text, code is one word."""
    text = CODE.sub("Code", text)
    text = LINK.sub(r"\1", text)
    text = re.sub(r"<[^<>]*>", "", text)
    return re.sub(r"\*\*|__|\*|(?<!\w)_|_(?!\w)", "", text)


def paragraphs(text):
    """(line, text as written) of paragraphs and list items. Headings, tables and code are left out."""
    found, start, words = [], 0, []

    def end():
        if words:
            found.append((start, " ".join(words)))
            words.clear()

    for number, line in enumerate(without_code_blocks(text), 1):
        if not line.strip() or TABLE_ROW.match(line) or HEADING.match(line):
            end()
            continue
        item = LIST_ITEM.match(line)
        if item:
            end()
            line = line[item.end():]
        if not words:
            start = number
        words.append(line.strip().removeprefix("> "))
    end()
    return found


def sentences(text):
    """(line, sentence without marks) of the document's prose. A sentence's line is its paragraph's first."""
    for line, paragraph in paragraphs(text):
        start, said = 0, plain(paragraph)
        for stop in re.finditer(r"[.!?][\"')\]]*(?=\s+[\"'(\[]*[A-Z0-9])", said):
            if ABBREVIATION.search(said[start:stop.start() + 1]):
                continue
            yield line, said[start:stop.end()].strip()
            start = stop.end()
        if said[start:].strip():
            yield line, said[start:].strip()


def count_words(sentence):
    """Words that are read: no lone marks."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def slug(heading):
    """The anchor of a heading on a code host, and on the site, whose tool is configured alike."""
    heading = LINK.sub(r"\1", heading)
    heading = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return heading.strip().replace(" ", "-")


def anchors(text):
    found = set()
    for line in without_code_blocks(text):
        match = HEADING.match(line)
        if match:
            name, number = slug(match[2]), 0
            while (f"{name}-{number}" if number else name) in found:
                number += 1
            found.add(f"{name}-{number}" if number else name)
        found.update(re.findall(r"<a (?:name|id)=\"([^\"]+)\"", line))
    return found


def links(text):
    """(line, target) of links and pictures, those of code left out."""
    # A link's text may go over the end of a line.
    whole = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), "\n".join(without_code_blocks(text)))
    for match in LINK.finditer(whole):
        yield whole.count("\n", 0, match.start()) + 1, match[2]
