"""What a review of the operator's tool found false or missing in its second release, and how it is now.

`check_tool(binaries, add, folder=None)` runs every row: those of OFFLINE in a folder of their own, those of ONLINE
against the lab of operator_lab, which it starts and ends. `check_online(lab, add)` uses a lab that runs already. `add`
takes name, value, aim and ok of a check.
"""

import json
import os
import re
import signal
import subprocess
import tarfile
import tempfile
import time

from parts import operator_lab
from parts.operator_rows import Row, code

SECRET = "esp_" + "5ec2e7" * 10


def in_order(*words):
    """The exit code 0, and these words in the output in this order."""
    def holds(got):
        at = 0
        for word in words:
            at = got.out.find(word, at)
            if at < 0:
                return False
        return got.code == 0
    return holds


def on_error(number, *words):
    return lambda got: got.code == number and all(word in got.err for word in words)


def is_plain(got):
    """No escape sequence came out."""
    return "\x1b" not in got.out and got.out.count("FLOW") >= 2


CHECK = ("""printf 'topology_file: "t.json"\\nstate_file: "s/store.db"\\ninsecure_plaintext: true\\nlisten: "%s"\\n"""
         """http: "unix:x.sock"\\n' '{}' > c.conf; espalier-controller --check --config c.conf""")

OFFLINE = [
    Row("2.4: --check of a listen address without tcp://", "ok; the start then: Invalid argument",
        CHECK.format("127.0.0.1:7400"), on_error(2, "listen", "tcp://127.0.0.1:7400")),
    Row("2.4, 6 #12: --check of an address that the machine does not have", "ok, 24 nodes; the start refuses it",
        CHECK.format("tcp://192.0.2.1:7400"), on_error(2, "is no address of this machine")),
    Row("2.4: --check of a sound configuration", "ok", CHECK.format("tcp://127.0.0.1:7400"), code(0, "ok")),
    Row("2.4: fail leaf0--spine1", "there is no command \"espalier fail leaf0--spine1\"", "espalier fail leaf0--spine1",
        on_error(2, "did you mean `espalier fail link leaf0--spine1`?")),
    Row("2.4: usage names the program", "Usage: flows [OPTIONS]", "espalier flows --help", code(0, "Usage: espalier flows")),
    Row("2.4: the options of a command come before those of the connection", "--controller came first",
        "espalier flows --help", in_order("--job", "Controller:", "--controller")),
    Row("2.4: commands by purpose", "39 commands in one list", "espalier --help",
        in_order("that look:", "status", "that act:", "drain", "that plan", "assign", "for keys", "for labs:")),
    Row("2.4: keys make nosuch --topology", "makes a key without a word",
        "espalier keys make nosuch --keys keys --topology t.json", on_error(0, "nosuch is no host of t.json")),
    Row("2.4: events have a reference", "12 of 22 kinds occurred nowhere in the documents",
        "grep -c '^| `' $ROOT/docs/events.md", lambda got: got.code == 0 and int(got.out) >= 90),
    Row("2.4: the reference of events is complete", "-", "python3 $ROOT/docs/tools/reference.py --check", code(0)),
    Row("5: contexts of several controllers", "environment only",
        "ESPALIER_CONTEXTS=$PWD/contexts.json; export ESPALIER_CONTEXTS; unset ESPALIER_CONTROLLER; "
        "espalier context set west --controller unix:/nowhere/west && espalier status", on_error(1, "/nowhere/west")),
    Row("a program file whose sizes no call has", "correct, and no word about the sizes",
        "espalier program make allreduce-ring-chunked --ranks 4 --to msccl-xml | sed 's/maxBytes=\"[0-9]*\"/maxBytes=\"0\"/' "
        "> none.xml; espalier program verify none.xml && espalier program show none.xml", code(0, "serves only empty calls")),
    Row("4: README shows what `espalier simulate` says of ECMP", "it was not shown", "grep -n 'espalier simulate' $ROOT/README.md",
        code(0)),
]

ONLINE = [
    Row("2.4: status is short", "39 lines, 21 of them 0", "espalier status",
        lambda got: got.code == 0 and len(got.out.splitlines()) <= 12 and " 0\n" not in got.out),
    Row("2.4: status has a sentence for the worst failure", "`worst_failure` with an empty value", "espalier status",
        lambda got: got.code == 0 and ("worst_failure" not in got.out or "fails" in got.out)),
    Row("2.3: explain is short", "eight sentences in a list of 30 rows", "espalier explain $(espalier flows -n 1 -o csv | tail -n 1 "
        "| cut -d, -f1)", lambda got: got.code == 0 and len(got.out.splitlines()) <= 16 and "port_trust" not in got.out),
    Row("2.4: jobs that have ended come last", "an ended job stood first", "espalier jobs -o csv",
        lambda got: got.code == 0 and sorted(flows := [line.split(",")[1] == "0" for line in got.out.splitlines()[1:]]) == flows),
    Row("2.4: no link is used by more than 100 %", "USED % 131", "espalier top --once --json",
        lambda got: all(float(link["percent"]) <= 100 for link in got.json()["links"])),
    Row("2.4: status --verbose has everything", "-", "espalier status -v", code(0, "links_down", "path_map_ports")),
    Row("5: status --wait", "lacks", "espalier status --wait --timeout 60", code(0, "health", "ok")),
    Row("5: status --wait gives up", "lacks",
        "espalier drain link h1--leaf0 >/dev/null; espalier fail link h1--leaf0 --force >/dev/null; "
        "espalier status --wait --timeout 1; rc=$?; espalier restore link h1--leaf0 >/dev/null; "
        "espalier undrain link h1--leaf0 >/dev/null; exit $rc", on_error(1, "the health is not ok after 1 s")),
    Row("5: describe link", "lacks in the CLI", "espalier describe link leaf0--spine1",
        in_order("link leaf0--spine1", "state", "Open flows", "History", "Events", "Operators' actions")),
    Row("5: describe node", "lacks in the CLI", "espalier describe node spine1", in_order("node spine1", "Links", "Events")),
    Row("5: describe job", "lacks in the CLI", "espalier describe job A", in_order("job A", "Open flows", "History")),
    Row("5: describe agent", "lacks in the CLI", "espalier describe agent h0", in_order("agent h0", "agent_up")),
    Row("5: describe --json", "lacks in the CLI", "espalier describe link leaf0--spine1 --json",
        lambda got: set(got.json()) == {"kind", "id", "state", "links", "flows", "history", "events", "intents", "audit"}),
    Row("2.2: probe ends with a summary", "64 rows, no sum", "espalier probe h0 h4 --ports 64", in_order("PORT", "spine", "answered")),
    Row("5: probe --sweep", "no sweep", "espalier probe --sweep --ports 8", code(0, "pairs of leaves probed with")),
    Row("2.4: flows --job nosuch", "a header, rc 0", "espalier flows --job nosuch",
        on_error(0, "--job nosuch matches nothing", "there are: ")),
    Row("2.4: flows --state bogus", "a header, rc 0", "espalier flows --state bogus", code(2)),
    Row("2.4: events --kind nosuch", "a header, rc 0", "espalier events --kind nosuch", on_error(2, "there is no kind of event")),
    Row("2.4: fail link leaf0-spine1", "there is no link ...", "espalier fail link leaf0-spine1",
        on_error(1, "did you mean leaf0--spine1?")),
    Row("2.4: fail link spine1--leaf0", "there is no link ...", "espalier fail link spine1--leaf0",
        on_error(1, "did you mean leaf0--spine1?")),
    Row("2.4: weight nosuch 2", "`added`, rc 0", "espalier weight nosuch 2 --dry-run",
        on_error(0, "no job is named \"nosuch\" now")),
    Row("2.4: steering off --job nosuch", "`added`, rc 0", "espalier steering off --job nosuch --dry-run",
        on_error(0, "no job is named \"nosuch\" now")),
    Row("2.4: maintenance add", "a store's record", "espalier maintenance add node spine1 --from 1h --until 2h",
        code(0, "maintenance m1 (drain node spine1 from ")),
    Row("2.4: intents show a window in words", "a store's record", "espalier intents list",
        lambda got: got.code == 0 and "drain node spine1" in got.out and "waiting checked" not in got.out),
    Row("2.4: maintenance list", "no such command", "espalier maintenance list; espalier maintenance cancel m1 >/dev/null",
        code(0, "spine1")),
    Row("2.4: flows --watch into a file", "escape sequences in the file", "timeout -s INT 3 espalier flows --watch 1", is_plain),
    Row("2.4: predict in words", "NEXT IN -851 ms", "espalier predict",
        lambda got: got.code == 0 and "NEXT FLOWS" in got.out and not re.search(r" -\d", got.out)),
    Row("2.4: completion of the filters' values", "none", "espalier complete -- flows --job ''; espalier complete -- flows --state RO; "
        "espalier complete -- events --kind link_lo", code(0, "A", "ROUTED", "link_lossy")),
    Row("3 #1: the page writes decimals", "5087/5040", "grep -c 'decimal' $ROOT/controller/api/page/details.js", code(0)),
]


def check_row(shell, add, row):
    got = shell.run(row.command)
    try:
        is_mended = bool(row.is_mended(got))
    except (ValueError, KeyError, IndexError):
        is_mended = False
    first = next((line.strip() for line in got.text.splitlines() if line.strip()), "")
    add(f"{row.what} ({row.command[:70]})", f"rc {got.code}, {first[:100]}", f"before: {row.before}", is_mended)


def check_bundle(lab, add):
    """A support bundle holds what support needs, and no token that stands in a configuration or in a reason."""
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "c.conf")
        with open(config, "w") as file:
            file.write(f'# made with {SECRET}\napi_token: "hunter2"\nkey_folder: "/etc/espalier/keys"\n')
        lab.run(f"espalier drain link leaf1--spine2 --reason 'with {SECRET}'; espalier undrain link leaf1--spine2")
        got = lab.run(f"espalier bundle -o {folder}/b.tar.gz --config {config}")
        with tarfile.open(f"{folder}/b.tar.gz") as archive:
            texts = {one.name: archive.extractfile(one).read().decode() for one in archive}
    needed = {"README.txt", "status.json", "events.json", "metrics.txt", "versions.txt", "config-1.txt"}
    has = {name.split("/")[-1] for name in texts}
    add("5: a support bundle (espalier bundle -o FILE)", f"rc {got.code}, {len(texts)} files", "before: lacks",
        got.code == 0 and needed <= has and all(json.loads(text) is not None for name, text in texts.items()
                                                if name.endswith(".json")))
    leaks = [name for name, text in texts.items() if SECRET in text or "hunter2" in text]
    add("5: the bundle holds no secret", ", ".join(leaks) or "none in any file", "none", not leaks)


def check_death(lab, add):
    """`events --follow`, `top` and `flows --watch` go on alike while the controller is dead, and after."""
    commands = ["events --follow", "top --interval 0.5", "flows --watch 0.5"]
    environment = {**os.environ, **lab.environment, "PATH": f"{lab.binaries}:{os.environ['PATH']}"}
    runs = [subprocess.Popen(f"exec espalier {one}", shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, env=environment) for one in commands]
    time.sleep(1)  # each has its first picture; nothing is concluded from the time
    for pid in operator_lab.descendants(lab.process.pid):
        if operator_lab.program_of(pid) == "espalier-controller":
            os.kill(pid, signal.SIGKILL)
    lab.wait_for(lambda: lab.run("espalier status").code == 1, "the controller is gone")
    again = subprocess.Popen([lab.binaries / "espalier", "lab", "exec", "--name", "quickstart", "controller", "--",
                              lab.binaries / "espalier-controller", "--config", lab.logs / "controller.conf"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lab.wait_for(lambda: lab.run("espalier status").code == 0, "the controller is back")
    time.sleep(3)  # each asks again
    alive = [one.poll() is None for one in runs]
    for one in runs:
        if one.poll() is None:
            one.send_signal(signal.SIGINT)
    errors = [one.communicate(timeout=operator_lab.PATIENCE)[1] for one in runs]
    add("2.4: commands that follow survive the controller's death", dict(zip(commands, alive)), "before: one of three", all(alive))
    add("2.4: they say that the controller is gone and back", [text.count("answers again") for text in errors], [1, 1, 1],
        all("answers again" in text for text in errors))
    again.terminate()
    again.wait(operator_lab.PATIENCE)


def check_online(lab, add, kills=True):
    lab.wait_for(lambda: lab.run("espalier status --wait --timeout 30").code == 0, "the health is ok")
    for row in ONLINE:
        check_row(lab, add, row)
    check_bundle(lab, add)
    if kills:
        check_death(lab, add)


def check_offline(binaries, add):
    with tempfile.TemporaryDirectory() as folder:
        shell = operator_lab.Shell(binaries, folder)
        shell.run("mkdir s; espalier topology make leaf-spine --spines 4 --leaves 4 --hosts-per-leaf 4 -o t.json")
        for row in OFFLINE:
            check_row(shell, add, row)


def check_tool(binaries, add):
    check_offline(binaries, add)
    with operator_lab.Lab(binaries) as lab:
        check_online(lab, add)
