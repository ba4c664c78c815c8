"""What a new user's review of the operator's commands complained of, with the command that shows how it is now.

Each row has what was complained of, what happened, the command, and a condition on its outcome. Rows run in their
order against one running lab: later rows rely on earlier ones, which take back what they do.
"""

import dataclasses
import json
from typing import Callable


@dataclasses.dataclass
class Row:
    what: str
    before: str
    command: str
    is_mended: Callable


def code(number, *words):
    """The exit code, and words that the output has."""
    return lambda got: got.code == number and all(word in got.text for word in words)


def lacks(*words):
    return lambda got: got.code == 0 and not any(word in got.text for word in words)


def error_json(kind=None):
    def holds(got):
        error = json.loads(got.out)["error"]
        return got.code != 0 and set(error) >= {"code", "message", "remedy"} and kind in (None, error["code"])
    return holds


def columns(got):
    return got.out.splitlines()[0] if got.out else ""


# Commands that only look.
READING = [
    Row("README and quickstart name `jobs`", "A subcommand is required, rc 2", "espalier jobs",
        code(0, "JOB", "ALL-REDUCE", "SLOWEST FLOW")),
    Row("quickstart's job names mean something", "process_api/fb99f6c5...", "espalier jobs",
        lambda got: got.code == 0 and "process_api" not in got.out),
    Row("status has a health word", "21 zeros, no word", "espalier status --verbose", code(0, "health", "links_down")),
    Row("flows are sorted", "in order of arrival", "espalier flows",
        lambda got: [line.split(":")[0] for line in got.out.splitlines()[1:]] ==
        sorted((line.split(":")[0] for line in got.out.splitlines()[1:]), key=lambda host: int(host[1:]))),
    Row("flows can be filtered by job", "rejected", "espalier flows --job A", code(0, "JOB")),
    Row("flows can be filtered by host, link and state", "rejected",
        "espalier flows --host h0 --state ROUTED --link leaf0--spine0", code(0, "FLOW")),
    Row("flows have rates with units", "raw bytes", "espalier flows", lambda got: "RATE" in columns(got)),
    Row("a flow can be found by its ends in the next round", "between `flows` and `explain` it was gone",
        "espalier explain 'h0>h4'", code(0, "h0", "h4")),
    Row("flows that have ended are listed", "there was no way", "espalier flows --ended --limit 3",
        lambda got: got.code == 0 and len(got.out.splitlines()) == 4 and "LASTED" in got.out),
    Row("an ended flow is explained", "there is no flow, rc 1",
        "espalier explain $(espalier flows --ended -n 1 -o csv | tail -n 1 | cut -d, -f2)",
        code(0, "the flow has ended", "via")),
    Row("links: only those that are not up", "rejected", "espalier links --down", code(0, "LINK")),
    Row("links: host links do not come first", "host links, load 0, came first", "espalier links --limit 1",
        lambda got: "leaf" in got.out.splitlines()[1] and "spine" in got.out.splitlines()[1]),
    Row("links show traffic", "loads only", "espalier links", lambda got: "RATE A>B" in columns(got)),
    Row("agents: silence with a unit", "0.063826026", "espalier agents",
        lambda got: got.code == 0 and " ms" in got.out or " s" in got.out),
    Row("hosts without an agent are listed", "nothing said who is missing", "espalier nodes --agent missing",
        code(0, "AGENT")),
    Row("plans: limit and filters", "4,785 lines", "espalier plans --limit 3 --since 1h",
        lambda got: got.code == 0 and len(got.out.splitlines()) <= 4),
    Row("predict: units", "1.604551425", "espalier predict", lambda got: got.code == 0 and "0.995967" not in got.out),
    Row("events: last ones first, limited", "the whole history", "espalier events --limit 5",
        lambda got: got.code == 0 and len(got.out.splitlines()) == 6),
    Row("events --follow --json prints JSON lines", "text", "timeout -s INT 3 espalier events --follow --json -n 2",
        lambda got: len(got.out.splitlines()) >= 2 and all("kind" in json.loads(line) for line in got.out.splitlines())),
    Row("--output csv", "rejected", "espalier links --output csv --limit 2",
        lambda got: got.code == 0 and got.out.splitlines()[0].startswith("id,")),
    Row("an address that is none", "is the controller running?", "espalier status --controller foo",
        lambda got: got.code == 2 and "foo" in got.err and "running" not in got.err),
    Row("which path does a port take, now", "no such command", "espalier probe h0 h4 --ports 4",
        lambda got: got.code == 0 and got.out.count("spine") >= 4),
    Row("probe between hosts of one leaf", "no such command", "espalier probe h0 h1",
        code(1, "no choice of paths")),
    Row("probe of a host that is not there", "no such command", "espalier probe h0 nowhere",
        code(1, "no NIC or host")),
    Row("top", "no such command", "espalier top --once", code(0, "Busiest links", "Slowest jobs")),
    Row("no trailing blanks", "in every line", "espalier links",
        lambda got: not any(line.endswith(" ") for line in got.out.splitlines())),
    Row("completion for bash", "none", "espalier reference bash", code(0, "complete", "espalier")),
    Row("completion for zsh", "none", "espalier reference zsh", code(0, "compdef", "espalier")),
]

# Wrong input.
INPUT = [
    Row("a mistyped command", "A subcommand is required", "espalier statu", code(2, "statu", "status")),
    Row("help", "A subcommand is required", "espalier help fail", code(0, "Mark a link or node as failed")),
    Row("help for a mistyped command", "-", "espalier help flwos", code(2, "flwos", "flows")),
    Row("a negative budget", "accepted, moved 12 flows", "espalier recompute --move-bytes -5",
        lambda got: got.code == 2),
    Row("a size with a suffix", "Could not convert", "espalier recompute --move-bytes 1G --dry-run", code(0)),
    Row("times as people write them", "refused", "espalier fail link leaf0--spine0 --until 30m --dry-run", code(0)),
    Row("weight -3", "a number from 0", "espalier weight A -3", lambda got: got.code == 2),
    Row("an error as JSON", "stdout empty", "espalier fail link nosuch --json", error_json()),
    Row("fail link nosuch names the list", "good", "espalier fail link nosuch", code(1, "nosuch")),
    Row("a node that is not there", "no list of nodes in the CLI", "espalier fail node spine9", code(1, "spine9", "espalier nodes")),
    Row("a filter that matches nothing", "-", "espalier flows --job nobody",
        lambda got: got.code == 0 and len(got.out.splitlines()) == 1),
]

# Actions, each taken back.
ACTIONS = [
    Row("failing a host's link says what it cuts off", "moved 0 flows", "espalier fail link h0--leaf0 --dry-run",
        code(0, "2 flows on links that are down")),
    Row("draining a spine", "fine", "espalier drain node spine0 --reason optics", code(0)),
    Row("drained through its node: the reason", "empty", "espalier links --state DRAINED", code(0, "optics")),
    Row("repeating with another end", "new --until dropped in silence",
        "espalier drain node spine0 --until 1h && espalier intents", code(0, "optics")),
    Row("a no-op as JSON", "stdout empty", "espalier drain node spine0 --until 1h --json",
        lambda got: got.out.strip().startswith("{")),
    Row("drain of spines 1 and 2", "fine", "espalier drain node spine1 && espalier drain node spine2", code(0)),
    Row("draining the last path", "moved 16 flows, optimal, rc 0", "espalier drain node spine3",
        lambda got: got.code == 1 and "--force" in got.err and "cut off" in got.err),
    Row("its dry run", "would move 16 flows", "espalier drain node spine3 --dry-run",
        lambda got: got.code == 0 and "no assignment" not in got.out and "without any usable path" in got.out,),
    Row("status after draining three spines", "nothing said so", "espalier status",
        lambda got: got.out.count(" is drained: by ") == 3),
    Row("rollback tells what it takes back", "moved 0 flows", "espalier rollback --dry-run", code(0, "spine2")),
    Row("rollback", "moved 0 flows", "espalier rollback", code(0, "spine2")),
    Row("a second rollback", "redid in silence", "espalier rollback", lambda got: got.code == 1),
    Row("the rest is taken back", "-", "espalier undrain node spine1 && espalier undrain node spine0", code(0)),
    Row("weights keep their end and reason", "silently removed",
        "espalier weight A 2 --until 1h --reason why && espalier weight A 3 && espalier intents",
        lambda got: got.code == 0 and got.out.count("why") >= 1),
    Row("the weight is taken back", "-", "espalier weight A 1", code(0)),
    Row("policy set says what holds", "moved 0 flows", "espalier policy set limit_rates always --dry-run",
        lambda got: got.code in (0, 2)),
    Row("steering is switched off for a host", "stop its agent and wait for the lease",
        "espalier steering off --host h0 --reason trial && espalier flows --host h0",
        lambda got: got.code == 0 and "UNSTEERED" in got.out),
    Row("status says that steering is off", "-", "espalier status", code(0, "degraded", "steer")),
    Row("rollback switches it on again", "-", "espalier rollback && espalier flows --host h0",
        lambda got: got.code == 0 and "UNSTEERED" not in got.out),
    Row("a maintenance window", "no such command",
        "espalier maintenance add link leaf0--spine0 --from 2h --until 3h --reason optics && espalier maintenance",
        code(0, "m1", "leaf0--spine0", "optics")),
    Row("it is cancelled", "no such command", "espalier maintenance cancel m1 && espalier maintenance",
        lambda got: got.code == 0 and "optics" not in got.out.splitlines()[-1]),
    Row("audit has a limit", "180 columns, no limit", "espalier audit --limit 2",
        lambda got: got.code == 0 and len(got.out.splitlines()) == 3),
]

# Commands that belong to other capabilities: told as missing where they are.
ELSEWHERE = [
    ("import of a topology from cables, SONiC or LLDP", "espalier topology import csv --help"),
    ("steering off and on", "espalier steering --help"),
    ("change of a running topology", "espalier topology apply --help"),
    ("maintenance windows", "espalier maintenance --help"),
    ("checks of a host before anything is steered", "espalier doctor --help"),
    ("watching only", "espalier advise --help"),
]
