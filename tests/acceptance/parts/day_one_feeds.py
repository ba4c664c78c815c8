"""What espalier-telemetry hears of a live fabric by polling its switches: real FRR in each switch, asked by vtysh."""

import json
import os
import re

from parts import link_faults

TARGETS = [*link_faults.TARGETS, "espalier-telemetry"]
SHAPE = ["--spines", "2", "--leaves", "2", "--hosts-per-leaf", "2", "--routing", "frr"]
LINK = "leaf0--spine1"


def check(name, value, aim, ok):
    return {"name": f"feeds, {name}", "value": value, "aim": aim, "ok": bool(ok)}


class PolledLab(link_faults.Lab):
    """A lab whose switches run FRR, and the daemon that polls them beside the controller."""

    def __enter__(self):
        super().__enter__()
        self.switches = [node["id"] for node in self.topology["nodes"] if node["kind"] == "SWITCH"]
        (self.files / "topology.json").write_text(json.dumps(self.topology), encoding="utf-8")
        config = [f'controller: "unix:{self.files}/http"', f'http: "unix:{self.files}/telemetry"',
                  f'topology_file: "{self.files}/topology.json"']
        config += [f'poll: "{switch} frr vtysh --vty_socket /run/frr/{switch} -c \'show interface json\'"'
                   for switch in self.switches]
        (self.files / "telemetry.conf").write_text("\n".join(config) + "\n", encoding="utf-8")
        self.start("controller", str(self.bin / "espalier-telemetry"), "--config",
                   str(self.files / "telemetry.conf"), log="telemetry.log")
        return self

    def polls(self):
        return {one["node"]: one for one in json.loads(self.ask("/exporters", "telemetry"))["polls"]}

    def log(self, event):
        return re.findall(rf"event={event} .*", (self.files / "telemetry.log").read_text(encoding="utf-8"))


def seconds(time):
    return "never" if time is None else f"{time:.1f} s"


def follow_link(lab):
    """A link that dies and returns."""
    lab.espalier("lab", "fail", LINK, "--name", lab.name)
    down = link_faults.wait(lambda: lab.links()[LINK]["state"] == "DOWN", 60)
    why = [event["text"] for event in lab.events("link_detected_down") if LINK in event["text"]]
    yield check("a link fails: the controller takes it out of use", seconds(down), "10 s, by a feed",
                down is not None and down < 10 and any("why=feed" in text for text in why))
    wrong = {name: state for name, state in lab.out_of_use().items() if name != LINK}
    yield check("other links out of use", len(wrong), "0", not wrong)
    lab.espalier("lab", "restore", LINK, "--name", lab.name)
    up = link_faults.wait(lambda: lab.links()[LINK]["state"] == "UP", 120)
    yield check("it returns: the controller uses it again", seconds(up), "90 s, with the hold-down",
                up is not None and up < 90)


def fall_silent(lab):
    """A switch whose FRR does not answer, while it forwards."""
    lab.run("leaf1", "sh", "-c", "mv /run/frr/leaf1/zebra.vty /run/frr/leaf1/away")
    silent = link_faults.wait(lambda: lab.polls()["leaf1"]["silent"], 60)
    yield check("a switch stops answering: it counts as silent", seconds(silent), "20 s",
                silent is not None and silent < 20)
    down = link_faults.wait(lab.out_of_use, 5)
    lost = "none" if down is None else str(lab.out_of_use())
    yield check("links out of use by its silence", lost, "none", down is None)
    lab.run("leaf1", "sh", "-c", "mv /run/frr/leaf1/away /run/frr/leaf1/zebra.vty")
    back = link_faults.wait(lambda: not lab.polls()["leaf1"]["silent"], 60)
    logged = len(lab.log("poll_silent")), len(lab.log("poll_answers"))
    yield check("it answers again", f"{seconds(back)}, logged {logged}", "30 s, logged once each",
                back is not None and back < 30 and logged == (1, 1))


def checks(folder, quick):
    with PolledLab(folder, f"feeds{os.getpid()}", SHAPE) as lab:
        heard = link_faults.wait(lambda: all(one["answers"] > 0 and one["up"] > 0 for one in lab.polls().values()), 60)
        missing = [port for one in lab.polls().values() for port in one["missing_ports"]]
        yield check("all switches answer, and each port is found by its name", f"{seconds(heard)}, missing {missing}",
                    "30 s, none", heard is not None and heard < 30 and not missing)
        yield from follow_link(lab)
        yield from fall_silent(lab)
