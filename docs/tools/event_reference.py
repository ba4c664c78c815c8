"""Makes docs/events.md from controller/api/event-kinds.json, which must have every kind that the controller can write."""
import json
import pathlib
import re

DESCRIPTION = "controller/api/event-kinds.json"

HEAD = """\
<!-- Made by docs/tools/reference.py from controller/api/event-kinds.json. Do not edit. -->
# Events

The controller records what happens in the fabric as events. `espalier events` lists them, the newest first;
`espalier events --kind 'link_*' --since 1h` chooses some, and `--follow` prints them as they happen. `espalier describe`
shows those of one link, node, job, agent or flow. The log of the controller has the same events as `event=KIND` with
the same text. Each event has a time, a kind and a text of `key=value` pairs.

For programs, the same list is at `/api/v1/event-kinds.json` of every controller. New versions add kinds.
"""

# How sources name the kind of an event: the position of the argument in each call that records one.
CALLS = {"Record": 1, "RecordOf": 2, "RecordEvent": 0}
# Files whose kinds stand before the call, in a variable or in a function that takes the kind, and where they stand.
ELSEWHERE = {
    "controller/links/link_health.cc": r'kind = "(\w+)"',
    "controller/controller.cc": r'record\("(\w+)"',
    "controller/discovery/discovery_run.cc": r'record_event\(\s*"(\w+)"',
    "controller/forests/tree_jobs.cc": r'ReplacePorts\(job, "(\w+)"',
    "controller/state/event_history.cc": r'now, "(\w+)"',
}
# Operators' actions hand the kind of their event to the queue of operations.
ACTIONS = "controller/operations/operator_actions.cc"
ACTION_WORDS = "controller/operations/intent_edits.cc"  # has "failed" of link_failed and node_failed


def arguments_at(text, begin):
    """The arguments of the call whose parenthesis opens at `begin`."""
    depth, parts, part, at, quoted = 0, [], "", begin, False
    while at < len(text):
        sign = text[at]
        if quoted:
            part += sign
            if sign == "\\":
                at += 1
                part += text[at]
            elif sign == '"':
                quoted = False
        elif sign == '"':
            quoted = True
            part += sign
        elif sign in "([{":
            depth += 1
            part += sign if depth > 1 else ""
        elif sign in ")]}":
            depth -= 1
            if depth == 0:
                return parts + [part]
            part += sign
        elif sign == "," and depth == 1:
            parts.append(part)
            part = ""
        else:
            part += sign
        at += 1
    return parts


def kinds_in_sources(root):
    """Every kind that the sources can write, and what cannot be read, as faults."""
    kinds, faults = set(), []
    for path in sorted((root / "controller").rglob("*.cc")):
        name = path.relative_to(root).as_posix()
        text = re.sub(r"//[^\n]*", "", path.read_text())
        if name == ACTIONS or name == "controller/operations/operation_queue.cc":
            continue
        if name in ELSEWHERE:
            found = re.findall(ELSEWHERE[name], text)
            kinds.update(found)
            if not found:
                faults.append(f"{name}: no event kind matches its pattern in docs/tools/event_reference.py")
        for call in re.finditer(r"(?:history_?\.|history->|controller_?\.|\b)(RecordOf|RecordEvent|Record)(\()", text):
            before = text[max(0, call.start() - 40):call.start(1)]
            is_history = before.rstrip().endswith(("history.", "history_.", "history->"))
            if call[1] == "Record" and not is_history or call[1] == "RecordOf" and not is_history:
                continue
            given = arguments_at(text, call.start(2))
            place = CALLS[call[1]]
            literals = re.findall(r'"(\w+)"', given[place]) if len(given) > place else []
            kinds.update(literals)
            if not literals and name not in ELSEWHERE and given[place:place + 1] != ["const std::string& kind"]:
                faults.append(f"{name}: the kind of an event is not named where it is recorded ({given})")
    kinds |= kinds_of_actions(root)
    return kinds, faults


def kinds_of_actions(root):
    text = (root / ACTIONS).read_text()
    pasts = re.findall(r'return \{\w+, "\w+", "(\w+)"', (root / ACTION_WORDS).read_text())
    kinds = {f"{what}_{past}" for what in ("link", "node") for past in pasts}
    for call in re.finditer(r"queue_\.Submit(\()", text):
        given = arguments_at(text, call.start(1))
        for one in arguments_at(given[0].strip(), 0)[3:4]:
            literals = re.findall(r'"(\w+)"', one)
            kinds.update(literals)
            if "steering_" in one:
                kinds.update(("steering_on", "steering_off"))
    queue = (root / "controller/operations/operation_queue.cc").read_text()
    kinds.update(re.findall(r'"((?:\w+_not_stored)|maintenance_held|maintenance_begun|intents_expired|audit_unfinished)"',
                            queue))
    for call in re.finditer(r"history\.Record(\()", queue):
        kinds.update(re.findall(r'^\s*"(\w+)"$', arguments_at(queue, call.start(1))[1]))
    return kinds


def described(root):
    return json.loads((root / DESCRIPTION).read_text())["kinds"]


def find_faults(root):
    kinds, faults = kinds_in_sources(root)
    rows = described(root)
    names = [row["kind"] for row in rows]
    faults += [f"{DESCRIPTION}: {kind} is described twice" for kind in sorted({n for n in names if names.count(n) > 1})]
    faults += [f"{DESCRIPTION}: {kind}, which the controller can write, is missing" for kind in sorted(kinds - set(names))]
    faults += [f"{DESCRIPTION}: {kind} is written nowhere" for kind in sorted(set(names) - kinds)]
    for row in rows:
        if not row["meaning"].endswith(".") or row["remedy"] and not row["remedy"].endswith("."):
            faults.append(f"{DESCRIPTION}: {row['kind']}: write sentences")
    return faults


def make(root):
    text = HEAD
    rows = described(root)
    for subject in dict.fromkeys(row["subject"] for row in rows):
        text += f"\n## {subject}\n| Kind | What has happened | What to do |\n|---|---|---|\n"
        for row in rows:
            if row["subject"] == subject:
                text += f"| `{row['kind']}` | {row['meaning']} | {row['remedy']} |\n"
    return text


if __name__ == "__main__":
    for line in find_faults(pathlib.Path(__file__).resolve().parents[2]):
        print(line)
