"""Two incidents of a review, played as an operator would: which commands lead from the symptom to cause and remedy."""

import json
import time

from parts import link_faults
from parts.faults_lab import check


class Operator:
    """Types commands, and notes how long each takes."""

    def __init__(self, lab):
        self.lab = lab
        self.typed = []
        self.began = time.monotonic()

    def ask(self, *words, note=True):
        start = time.monotonic()
        out = self.lab.espalier(*words, "--controller", f"unix:{self.lab.files}/http")
        if note:
            self.typed.append(f"{' '.join(words[:3])} ({time.monotonic() - start:.1f} s)")
        return out

    def health(self):
        return json.loads(self.ask("status", "--json", note=False))

    def seconds(self):
        return time.monotonic() - self.began

    def story(self):
        return f"{self.seconds():.0f} s; {', '.join(self.typed)}"


def lossy_link(folder):
    """spine1 drops 8 % of the TCP packets to leaf1; the review found healthy links named, and never the guilty one."""
    with link_faults.Lab(folder, "incident1") as lab:
        link_faults.load(lab, "jobs")
        link_faults.wait(lambda: all(job["rounds"] >= 3 for job in lab.get("jobs")["jobs"]) and lab.get("jobs")["jobs"], 60)
        link = lab.lose("spine1", "leaf1", 8, link_faults.TCP)
        operator = Operator(lab)
        seconds = link_faults.wait(lambda: operator.health()["health"] != "ok", 60)
        yield check("incident 1, a lossy link: seconds until the health is not ok", seconds and round(seconds, 1), "at most 20",
                    seconds is not None and seconds <= 20)
        operator.ask("status")
        down = operator.ask("links", "--down")
        about = operator.ask("describe", "link", link)
        reasons = " ".join(operator.health()["health_reasons"])
        named = {name for name in lab.links() if name in reasons + down and not name.startswith("h")}
        yield check("  the links that the health's reasons and `links --down` name", sorted(named), f"{link} alone", named == {link})
        why = lab.links()[link].get("why", {}).get("words", "")
        yield check("  the cause in words", why, "lost and sent packets of the link and its siblings", "lost" in why and why in down + about)
        operator.ask("drain", "link", link, "--reason", "loses packets")
        away = link_faults.wait(lambda: not any(link in [hop["direction"].split(">")[0] for path in lab.get(
            f"flows/explain?flow={flow['flow']}")["paths"] if path["chosen"] for hop in path["links"]]
            for flow in lab.get("flows")["flows"]), 20)
        yield check("  from symptom to remedy", operator.story(), "at most 4 commands and 60 s; no flow is on the link",
                    away is not None and len(operator.typed) <= 4 and operator.seconds() <= 60)


def dead_spine(folder):
    """spine2 drops everything; the review found three of its links, no word about the spine, and a healthy link SLOW."""
    with link_faults.Lab(folder, "incident2") as lab:
        link_faults.load(lab, "jobs")
        link_faults.wait(lambda: all(job["rounds"] >= 3 for job in lab.get("jobs")["jobs"]) and lab.get("jobs")["jobs"], 60)
        for leaf in range(4):
            lab.lose("spine2", f"leaf{leaf}", 100)
        operator = Operator(lab)
        seconds = link_faults.wait(lambda: operator.health()["health"] != "ok", 30)
        yield check("incident 2, a dead spine: seconds until the health is not ok", seconds and round(seconds, 1), "at most 5",
                    seconds is not None and seconds <= 5)
        named = link_faults.wait(lambda: any("spine2" in reason and "dead" in reason for reason in
                                             operator.health()["health_reasons"]), 20)
        says = operator.ask("status")
        yield check("  the cause in words", next((line.strip() for line in says.splitlines() if "dead" in line), says),
                    "spine2 looks dead", named is not None and "spine2" in says)
        down = operator.ask("links", "--down")
        others = {name for name in lab.out_of_use() if "--spine2" not in name}
        yield check("  other links out of use", sorted(others), "none", not others and "spine2" in down)
        operator.ask("fail", "node", "spine2", "--reason", "dead", "--force")
        away = link_faults.wait(lambda: all("spine2" not in flow["via"] for flow in lab.get("flows")["flows"]), 20)
        yield check("  from symptom to remedy", operator.story(), "at most 3 commands and 30 s; no flow is on the spine",
                    away is not None and len(operator.typed) <= 3 and operator.seconds() <= 30)
        blamed = "drained" in "".join(operator.ask("explain", flow["flow"], note=False) for flow in lab.get("flows")["flows"][:6])
        yield check("  `explain` speaks of a drained link, though nobody drained one", blamed, "no", not blamed)


def checks(folder):
    yield from lossy_link(folder)
    yield from dead_spine(folder)
