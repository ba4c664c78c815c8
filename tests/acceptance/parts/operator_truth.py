"""No answer sounds better than the state is: each bad state of the fabric, and where an operator must see it.

Each case brings a state about, and then reads it in the dry run, in the action's result, in `status`, at /readyz and in
the metrics. All of it is taken back.
"""

import dataclasses
import http.client
import re
import socket


@dataclasses.dataclass
class Case:
    what: str
    prepare: str  # what else must hold, already done when the action is tried
    action: str  # "" if the state is not an operator's doing: `prepare` brings it about
    effect: str  # words in the dry run and in the result, besides numbers
    health: str
    reason: str  # words in status
    metric: str  # is above 0
    undo: str


CASES = [
    Case("a NIC's link that failed", "", "espalier fail link h0--leaf0", "on links that are down", "failing",
         "on links that are down", "espalier_controller_flows_on_dead_links", "espalier restore link h0--leaf0"),
    Case("a host that failed", "", "espalier fail node h5", "on links that are down", "failing",
         "on links that are down", "espalier_controller_flows_on_dead_links", "espalier restore node h5"),
    Case("flows without any path", "for i in 0 1 2; do espalier drain node spine$i; done",
         "espalier drain node spine3", "without any usable path", "failing", "no usable path",
         "espalier_controller_flows_without_path", "for i in 3 2 1 0; do espalier undrain node spine$i; done"),
    Case("a NIC's link that is drained", "", "espalier drain link h1--leaf0", "on drained links", "degraded",
         "on drained links", "espalier_controller_flows_on_drained_links", "espalier undrain link h1--leaf0"),
    Case("a link that a feed reports down",
         """echo '{"link": "leaf0--spine1", "up": false, "source": "gnmi"}' | espalier report links""", "", "",
         "degraded", "link is down", "espalier_controller_links_down",
         """echo '{"link": "leaf0--spine1", "up": true, "source": "gnmi"}' | espalier report links"""),
]


def get(lab, path):
    """What the controller answers at this path of its Unix socket."""
    connection = http.client.HTTPConnection("controller")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(lab.environment["ESPALIER_CONTROLLER"].removeprefix("unix:"))
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def metric_of(text, name):
    """The value of a metric without labels; 0 if it is absent."""
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0


def growth(text, words):
    """The number before these words, in a line of an action's outcome; 0 if there is none."""
    found = re.search(rf"(\d+) flows? {re.escape(words)}", text)
    return int(found.group(1)) if found else 0


def check_case(lab, case):
    if case.prepare:
        lab.run(case.prepare)
    answers = {}
    if case.action:
        answers["dry run"] = growth(lab.run(case.action + " --dry-run").out, case.effect)
        answers["result"] = growth(lab.run(case.action + " --force").out, case.effect)
    status = lab.run("espalier status")
    words = " ".join(status.out.split())
    answers["status"] = words.startswith(f"health {case.health}") and case.reason in words
    answers["/readyz"] = get(lab, "/readyz").strip() == case.health
    metrics = get(lab, "/metrics")
    answers["metrics"] = metric_of(metrics, case.metric) > 0 and metric_of(metrics, "espalier_controller_health") > 0
    lab.run(case.undo)
    return answers


def check_truth(lab, report):
    for case in CASES:
        answers = check_case(lab, case)
        seen = [place for place, value in answers.items() if value]
        report.add(f"{case.what} is told everywhere ({case.action or case.prepare})", ", ".join(seen),
                   ", ".join(answers), len(seen) == len(answers))
        lab.wait_for(lambda: lab.ask("status").get("health") == "ok", f"all is well after {case.what}")
    check_reservations(lab, report)


def check_reservations(lab, report):
    """A job with trees: its reservations count in every load."""
    lab.run("espalier job start train --ranks h0,h4,h8,h12")
    lab.wait_for(lambda: any(job["job"] == "train" and job["flows"] for job in lab.ask("jobs")["jobs"]), "trees are there")
    dry_run = lab.run("espalier fail link leaf1--spine2 --dry-run").out
    texts = {}

    def all_at_one_time():
        """Reads the three places, and whether flows of the jobs came or went meanwhile."""
        before = lab.ask("status")
        top = max(max(map(fraction, (link["load_a_to_b"], link["load_b_to_a"]))) for link in lab.ask("links")["links"])
        seen = metric_of(get(lab, "/metrics"), "espalier_controller_max_link_load")
        texts.update(status=fraction(before["max_load"]), links=top, metrics=seen)
        return lab.ask("status")["version"] == before["version"]

    lab.wait_for(all_at_one_time, "no flow comes or goes while three answers are read")
    report.add("reservations of trees count in status, links and metrics",
               ", ".join(f"{place} {load:.3f}" for place, load in texts.items()), "the same largest load",
               max(texts.values()) - min(texts.values()) < 1e-6)
    report.add("a dry run counts the trees that it breaks (espalier fail link leaf1--spine2 --dry-run)",
               next((line for line in dry_run.splitlines() if "recompute" in line), "nothing"),
               'before: "forests":0', "would recompute 1 forest" in dry_run)
    listed = lab.run("espalier job list")
    report.add("ALGBW has a unit (espalier job list)", listed.out.splitlines()[-1][:100], "before: 0.066666656",
               "bit/s" in listed.out)
    lab.run("espalier job stop train")


def fraction(text):
    over, _, under = str(text).partition("/")
    return float(over) / float(under or 1)
