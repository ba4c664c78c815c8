"""The review's other rows: what needs no lab (offline tools, keys, file errors, documents), and small defects.

`item` is the review's chapter. Rows of OFFLINE run in a folder with t.json (a fabric of 4 spines and 4 leaves),
a.json (two boxes), f.csv and jobs.json; those of ONLINE against the lab of operator_lab. ANSWERED names the items that
docs/decisions.md answers, or that belong to other capabilities.
"""

import json
import re
import shlex

from parts.operator_rows import Row, code, columns, error_json, lacks

FILES = {
    "f.csv": "flow,job,src,dst,bytes\nf1,j,h0,h4,\nf2,j,h1,h5,\nf3,j,h2,h8,\nf4,j,h3,h12,\n",
    "bad.csv": "flow,job,src,dst,bytes\nf1,j,h0\n",
    "empty.json": '{"name": "e", "version": 1, "nodes": [], "links": []}',
    "jobs.json": json.dumps({"jobs": [{"id": name, "epochs": 3, "rings": [{"hosts": hosts, "bytes": 4000}]}
                                      for name, hosts in (("A", ["h0", "h4", "h8", "h12"]),
                                                          ("B", ["h1", "h5", "h9", "h13"]))]}),
    "one_path.json": json.dumps({"name": "p", "version": 1, "nodes": [
        {"id": "h0", "kind": "COMPUTE"}, {"id": "h1", "kind": "COMPUTE"}, {"id": "l0", "kind": "SWITCH", "role": "LEAF"},
        {"id": "l1", "kind": "SWITCH", "role": "LEAF"}, {"id": "s", "kind": "SWITCH", "role": "SPINE"}],
        "links": [{"a": "h0", "b": "l0", "gbps": 400}, {"a": "h1", "b": "l1", "gbps": 400},
                  {"a": "l0", "b": "s", "gbps": 100}, {"a": "l1", "b": "s", "gbps": 100}]}),
    "c.conf": 'topology_file: "t.json"\nstate_file: "nowhere/store.db"\ninsecure_plaintext: true\n',
}
SETUP = ["espalier topology make leaf-spine --spines 4 --leaves 4 --hosts-per-leaf 4 -o t.json",
         "espalier topology make a100 --boxes 2 -o a.json", "espalier forest --topology a.json -o forest.json",
         "espalier program make allreduce-ring --ranks 4 -o p4.json",
         "espalier program make allreduce-ring --ranks 64 -o p64.json"]


# Writes the lab's topology without the host h0.
DROP = """import json, re, sys
folder = sys.argv[1]
configured = re.search('topology_file: "(.*)"', open(f"{folder}/controller.conf").read()).group(1)
fabric = json.load(open(configured))
fabric["nodes"] = [node for node in fabric["nodes"] if node["id"] != "h0"]
fabric["links"] = [link for link in fabric["links"] if "h0" not in (link["a"], link["b"])]
fabric["version"] += 1
json.dump(fabric, open(f"{folder}/dropped.json", "w"))"""


def no_line_above(words_in_cell):
    return lambda got: got.code == 0 and int(got.out) <= words_in_cell


OFFLINE = [
    # Chapter 1: the documents.
    Row("1.2 #2: how to change the topology of a running controller", "nowhere said",
        "grep -c 'espalier topology apply' $ROOT/docs/operating.md", code(0)),
    Row("1.2 #3, 2.1: texts name only commands that there are", "`jobs`, which did not exist",
        "for c in status flows jobs nodes links plans events top; do espalier help $c >/dev/null || exit 1; done", code(0)),
    Row("1.2 #5: what a fabric must have, and for whom Espalier is not", "not said",
        "grep -i -A12 'what the fabric must' $ROOT/README.md", code(0, "UDP source port", "spraying", "TTL", "not for")),
    Row("1.2 #6: README says where installing is explained", "no word about it",
        "grep -i 'install' $ROOT/README.md", code(0, "docs/operating.md")),
    Row("1.2 #8: a glossary", "none", "grep -i -E 'lease|epoch|revision|load|bound|forest' $ROOT/docs/glossary.md | wc -l",
        lambda got: int(got.out) >= 6),
    Row("1.2 #9: help by symptom", "none", "grep -A3 '## When something is wrong' $ROOT/docs/operating.md",
        code(0, "A job is slow")),
    Row("1.2 #10: the feeds can be found", "one paragraph of 25 lines held them",
        "grep -n -E '^(#+ |\\*\\*).*([Ff]eed|[Rr]eport)' $ROOT/docs/operating.md", code(0)),
    Row("1.2 #11: words in the longest cell of a table of operating.md", "60",
        r"""awk -F'|' '/^\|/ {for (i = 2; i < NF; ++i) {n = split($i, w, " "); if (n > m) m = n}} END {print m}' """
        "$ROOT/docs/operating.md", no_line_above(45)),
    Row("1.3: the ten sentences that had to be read twice", "they stood in operating.md",
        "grep -r -h -F -e 'at their next message, where a link of its leaves' -e 'of flows that could make room' "
        "-e 'A flow that pauses leaves its part' -e 'which does not raise the maximum load for it' "
        "-e 'there is no forest now, as ranks' -e 'What it has said is down stays so' -e 'whoever looks' "
        "-e 'starts for which a plan held' -e 'is shown alike' -e 'Who can be asked has flows' $ROOT/docs/*.md "
        "$ROOT/README.md", lambda got: got.code == 1),
    Row("1.3: help texts", "`Take it as failed: its flows move at once`", "espalier fail --help",
        lambda got: got.code == 0 and "Take it" not in got.out and "Mark a link or node as failed" in got.out),
    # Chapter 2: commands.
    Row("2.1: quickstart --help", "clear", "$ROOT/deploy/quickstart --help", code(0, "--keep")),
    Row("2.1: quickstart --seeds abc", "the build ran first", "$ROOT/deploy/quickstart --seeds abc",
        lambda got: got.code == 2 and "building" not in got.text),
    Row("2.2: manual pages", "one for 31 commands", "espalier reference man --output man >/dev/null; ls man | wc -l",
        lambda got: got.code == 0 and int(got.out.split()[-1]) > 50),
    Row("2.2: completion for fish", "none", "espalier reference fish", code(0, "complete -c espalier")),
    Row("2.2: --ca of a file that is not there", "asio.ssl error",
        "espalier status --controller https://127.0.0.1:9 --ca /none",
        code(2, "no certificates in PEM form can be read from it")),
    Row("2.3: help for a mistyped command", "A subcommand is required", "espalier statsu --help",
        code(2, "statsu", "did you mean `espalier status`?")),
    Row("2.3: help for a mistyped command of a group", "the group's help, rc 0", "espalier topology chek --help",
        code(2, "did you mean `espalier topology check`?")),
    Row("2.3: policy show", "A subcommand is required", "espalier policy show", code(2, "espalier policy show")),
    Row("2.3: weight 2.5", "weight is a number from 0", "espalier weight A 2.5", code(2, "from 1 to 1000")),
    Row("2.3: weight 0", "a number from 0", "espalier weight A 0", code(2, "from 1 to 1000")),
    Row("2.3: job start --ranks of a file that is not there", "a job has two ranks or more, not 1",
        "espalier job start --ranks /none.json", lambda got: got.code == 2 and "/none.json: cannot open" in got.err),
    Row("2.3: keys list on a missing folder", "nothing, rc 0", "espalier keys list --keys $PWD/missing; ls -d missing",
        code(2, "there is no such folder")),
    Row("2.3: keys make --json", "no such option", "espalier keys make h0 --keys keys --json",
        lambda got: len(got.json()["files"]) == 2),
    Row("2.3: keys list has a header", "none", "espalier keys list --keys keys", lambda got: "AGENT" in columns(got)),
    Row("2.3: keys rotate --json", "no such option", "espalier keys rotate h0 --keys keys --json 2>/dev/null",
        lambda got: got.json() == {"files": ["keys/agents/h0.key"], "reload": True}),
    Row("2.3: keys revoke --json", "no such option", "espalier keys revoke h0 --keys keys --json 2>/dev/null",
        lambda got: got.json() == {"revoked": ["h0"], "reload": True}),
    Row("2.3: token make --json", "the token stood between hints",
        "espalier token make alice --role operator --keys keys --json 2>/dev/null",
        lambda got: got.json()["role"] == "operator" and len(got.json()["token"]) > 20),
    Row("2.3: token list has a header", "none", "espalier token list --keys keys", code(0, "HOLDER", "alice")),
    Row("2.3: an article", "alice is a operator", "grep -rn 'is a operator' $ROOT/controller $ROOT/common",
        lambda got: got.code == 1),
    # Chapter 4: offline tools.
    Row("4: topology make into a missing folder", "named a temporary file (x.json.864.tmp)",
        "espalier topology make ring --nodes 4 -o missing/x.json",
        lambda got: got.code == 1 and "missing/x.json: cannot create" in got.err and ".tmp" not in got.err),
    Row("4: help for every option of topology make", "half had none", "espalier topology make rails --help",
        lambda got: got.code == 0 and all(len(line.split()) > 2 for line in got.out.splitlines() if " --" in line)),
    Row("4: topology check of an empty fabric", "a good topology", "espalier topology check empty.json",
        code(0, "nothing to steer")),
    Row("4: topology check says what steering lacks", "nothing", "espalier topology check one_path.json",
        code(0, "have no address", "no choice of paths", "oversubscribed 4 to 1")),
    Row("4: a broken topology file", "delight", """echo '{"name": 1' > e.json; espalier topology check e.json""",
        code(2, "e.json:2:1")),
    Row("4: assign", "the most convincing output", "espalier assign --topology t.json --flows f.csv --json",
        lambda got: got.json()["max_link_load"] == "1"),
    Row("4: somebody is led to assign", "nobody", "grep -n 'espalier assign' $ROOT/README.md", code(0)),
    Row("4: a bad flow file", "line, column, cure", "espalier assign --topology t.json --flows bad.csv",
        code(2, "bad.csv:2:6:")),
    Row("4: assign --move-budget -3", "accepted", "espalier assign --topology t.json --flows f.csv --move-budget -3",
        code(2, "negative")),
    Row("4: assign --seed=-1", "accepted", "espalier assign --topology t.json --flows f.csv --seed=-1",
        code(2, "negative")),
    Row("4: an error of a file as JSON", "stdout empty", "espalier assign --topology missing.json --flows f.csv --json",
        error_json()),
    Row("4: the same of forest", "stdout empty", "espalier forest --topology missing.json --json", error_json()),
    Row("4: the same of program", "stdout empty", "espalier program verify missing.json --json", error_json()),
    Row("4: the same of simulate", "stdout empty", "espalier simulate --topology t.json --jobs missing --json",
        error_json()),
    Row("4: the same of store", "stdout empty", "espalier store check --store missing.db --json", error_json()),
    Row("4: simulate shows short times", "0.0000", "espalier simulate --topology t.json --jobs jobs.json",
        lambda got: got.code == 0 and "0.0000 " not in got.out),
    Row("4: simulate's ideal has no load", "MAX_LOAD 2", "espalier simulate --topology t.json --jobs jobs.json "
        "--algorithm ideal", lambda got: got.code == 0 and got.out.splitlines()[1].split()[9] == "-"),
    Row("4: forest verify", "1 of the bound", "espalier forest verify --topology a.json forest.json",
        code(0, "100 % of the bound")),
    Row("4: --prove", "good news with the prefix of an error",
        "espalier forest --topology t.json --collective allreduce --prove --format summary",
        lambda got: got.code == 0 and "no allreduce is faster" in got.err and "espalier: no allreduce" not in got.err),
    Row("4: forest summary", "The following arguments were not expected", "espalier forest summary forest.json",
        code(2, 'there is no command "espalier forest summary"')),
    Row("4: its figures as text", "there was a format, not a command",
        "espalier forest show --topology a.json forest.json", code(0, "bottleneck cut", "links (each direction)")),
    Row("4: program make --root of an all-reduce", "ignored in silence",
        "espalier program make allreduce-ring --ranks 4 --root 2", code(2, "does not take --root")),
    Row("4: a program that MSCCL++ cannot express", "no way out named",
        "espalier program convert --to mscclpp-json p64.json", code(1, "operations, more than 64", "fewer")),
    Row("4: MSCCL's XML", "round trip works", "espalier program convert --to msccl-xml p4.json -o p.xml && "
        "espalier program verify p.xml", code(0, "correct")),
    Row("4: bench", "nccl-tests' columns", "espalier bench allreduce --ranks 2 --transport shm -b 1K -e 1K",
        code(0, "algbw GB/s", "busbw GB/s")),
    # Chapter 6.
    Row("6: --check with a state folder that does not exist", "ok", "espalier-controller --config c.conf --check",
        code(0, "does not exist")),
    Row("6: output that cannot be written", "rc 0", "espalier topology check t.json > /dev/full",
        lambda got: got.code == 1 and "cannot write" in got.err),
]

ONLINE = [
    Row("2.1: a second lab", "the first one is named, with how to end it", "espalier-quickstart --seeds 1",
        code(1, "quickstart", "espalier lab down")),
    Row("2.2: units of predict", "0.9959677419354839", "espalier predict",
        lambda got: got.code == 0 and " %" in got.out and not any(len(word) > 12 and "." in word
                                                                   for word in got.out.split())),
    Row("2.2: predict of what it does not know", "planned yes beside next 0.0", "espalier predict --job permutation",
        lambda got: got.code == 0 and "not known" in got.out and "in advance" not in got.out),
    Row("2.2: agents tells who is missing", "a header and rc 0", "espalier agents; espalier help agents",
        code(0, "agent")),
    Row("2.2: explain has units", "protocol 6, max_rate_bps 0", "espalier explain 'h0>h4'",
        lambda got: got.code == 0 and "protocol             6" not in got.out and "\npaths \n" not in got.out),
    Row("2.2: one report", "1 reports taken",
        """echo '{"link": "leaf0--spine0", "up": true}' | espalier report links""", code(0, "1 report taken")),
    Row("2.2: a bad line of a report", "line 1:1:1: invalid value", "echo '{x' | espalier report links",
        code(2, "line 1:1:2")),
    Row("2.2: https to a plain port", "wrong version number", "espalier status --controller https://127.0.0.1:9180",
        code(1, "does it speak https")),
    Row("2.2: nobody listens", "names the cause and the option", "espalier status --controller 127.0.0.1:1",
        code(1, "refused", "--controller")),
    Row("2.2: filters of audit", "no limit or filter", "espalier audit --since 1h --actor nobody",
        lambda got: got.code == 0 and len(got.out.splitlines()) == 1),
    Row("2.2: jobs without rounds have no times", "0 s", "espalier jobs", lacks(" 0 s ")),
    Row("2.3: policy list", "9223372036854775807", "espalier policy list",
        lambda got: got.code == 0 and "no limit" in got.out and "9223372036854775807" not in got.out),
    Row("2.3: reload --json is one line", "a blank line after it", "espalier reload --json",
        lambda got: got.out == '{"reloaded":true}\n'),
    Row("2.3: errors of the lab are JSON, too", "stdout empty", "espalier lab counters --name nosuch --json",
        lambda got: got.code == 1 and got.json()["error"]["code"] == "not found"),
    Row("2.3: policy set says what holds", "moved 0 flows", "espalier policy set moves_per_start 4",
        code(0, "moves_per_start", "4")),
    Row("2.3: it is reset", "-", "espalier policy reset moves_per_start", code(0, "moves_per_start")),
    Row("2.3: rollback --to 999", "names the command that lists the right ones", "espalier rollback --to 999",
        code(1, "espalier audit")),
    Row("2.3: --until of the past", "refused with the right forms", "espalier fail link leaf0--spine0 --until yesterday",
        code(2, "30m")),
    Row("a drained spine is named by status", "drained_nodes 1",
        "espalier drain node spine2 --reason 'new optics' && espalier status && espalier undrain node spine2",
        lambda got: got.code == 0 and "spine2 is drained: by user" in got.out and "new optics" in got.out),
    Row("6: a log line of the start", "named the first http address only", "grep -h event=ready $LOGS/controller.log",
        lambda got: got.code == 0 and got.out.count("unix:") == 1 and "http=" in got.out),
    # Bad input.
    Row("a filter that matches nothing, as JSON", "-", "espalier flows --job nobody --json",
        lambda got: got.json()["flows"] == []),
    Row("a filter that names a link that is not there", "-", "espalier flows --link nosuch", code(2, "nosuch")),
    Row("--since in the future", "-", "espalier events --since 2100-01-01T00:00Z",
        lambda got: got.code == 0 and len(got.out.splitlines()) == 1),
    Row("a terminal of 40 columns", "-",
        "PAGER=cat script -qec 'stty cols 40 rows 12; espalier top --once' /dev/null",
        code(0, "Busiest links", "Slowest jobs")),
    Row("a pipe that closes", "-", "espalier links | head -n 1",
        lambda got: got.code == 0 and got.err == "" and len(got.out.splitlines()) == 1),
    Row("a pipe that closes on a follower", "-", "timeout 20 espalier events --follow -n 5 | head -n 1; echo ended",
        lambda got: got.code == 0 and got.err == "" and got.out.endswith("ended\n") and got.seconds < 15),
    Row("two operators drain the same spine at once", "-",
        "(espalier drain node spine1 & espalier drain node spine1 & wait); espalier intents; espalier undrain node spine1",
        lambda got: len(re.findall("drained node +spine1 +-", got.out)) == 1
        and got.out.count("added: drained node spine1") == 1 and got.err.count("spine1 is already drained") == 1),
    Row("two operators drain two spines at once", "-",
        "(espalier drain node spine0 & espalier drain node spine1 & wait); espalier intents; "
        "espalier undrain node spine0; espalier undrain node spine1",
        lambda got: set(re.findall("drained node +(spine.)", got.out)) == {"spine0", "spine1"}),
    Row("a topology file that drops a host with live flows: the dry run", "-",
        f"python3 -c {shlex.quote(DROP)} $LOGS && espalier topology apply $LOGS/dropped.json --dry-run",
        code(0, "host with open flows that vanishes: h0", "--force")),
    Row("it is refused without a confirmation", "-", "espalier topology apply $LOGS/dropped.json",
        code(1, "--force")),
]

# Items without a command of their own: (item, where they are answered).
ANSWERED = [
    ("1.2 #4: no way to try without compiling", "docs/decisions.md, \"The demo is built where it runs\""),
    ("1.2 #12, 4.2: LLDP, SONiC, EVPN and what switches must do", "the capability day_one"),
    ("1.3: English", "tests/acceptance/words"),
    ("2.2: audit lists a repeat as REFUSED", "docs/decisions.md, \"The audit log has every attempt\""),
    ("2.3: Z85 keys cannot be copied by double click", "docs/decisions.md, \"Keys keep ZeroMQ's form\""),
    ("2.3: topology make has no --json", "docs/decisions.md, \"What prints a file prints only that file\""),
    ("2.3: the default name of a job is `job`", "docs/decisions.md, \"What prints a file prints only that file\""),
    ("3: the page", "tests/page, and the page's rows of this acceptance"),
    ("4: simulate draws no picture", "docs/decisions.md, \"What prints a file prints only that file\""),
    ("4.1, 4.3: imports, preflight, observing, roll-out by Ansible", "the capability day_one"),
    ("6: with a full disk no link can be failed", "docs/decisions.md, \"Durable first\""),
]
