"""Statements drawn at random from what all commands say of one lab, each judged by other means than the controller's.

The judges are the lab's counters (each packet of a flow at the spines, each byte at an interface), the generator's log,
the kernel's interfaces, addresses and connections in the nodes, and a packet that is sent to see which way it takes."""

import collections
import json
import random
import statistics
import time

from parts.faults_lab import Lab, check

COUNT = 20
SEED = 48
MBPS = 50
REASON = "optics of leaf0 are exchanged"
STEADY = {"id": "steady", "job": "steady", "source": "h0", "destination": "h2", "bytes": 150_000_000}
WORKLOAD = {
    "flows": [STEADY],
    "jobs": [{"id": "ring", "epochs": 16, "compute_seconds": 0.4, "rings": [{"hosts": ["h1", "h3"], "bytes": 3_000_000}]}],
    "phased_jobs": [{"id": "phased", "iterations": 25, "period_seconds": 1.0, "phases": [
        {"name": "back", "compute_seconds": 0.1, "bursts": [{"source": "h2", "destination": "h0", "bytes": 1_500_000}]}]}]}
FLOWS = 4  # of the workload
SEND = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', {port})); "
        "[s.sendto(b'x' * 100, ('{to}', 4791)) for _ in range(5)]")


def near(a, b, part):
    return abs(a - b) <= part * max(abs(a), abs(b))


class Judge:
    """What is known without the controller, of the time in which the commands ran."""

    def __init__(self, lab):
        self.lab = lab
        self.before, self.began = self.counters(), time.monotonic()

    def counters(self):
        return json.loads(self.lab.run("lab", "counters", "--name", self.lab.name, "--json"))

    def close(self, flows):
        """Ends the time that is judged, when all of these flows have sent something in it."""
        ends = {(flow["source_address"], flow["destination_address"]) for flow in flows}

        def have_sent():
            self.after, self.seconds = self.counters(), time.monotonic() - self.began
            return ends <= {key[:2] for key in self.packets(self.before, self.after)}
        self.lab.wait(have_sent, 5)

    def packets(self, before, after):
        """By addresses and source port: the spines that counted packets, and the bytes."""
        grown = collections.Counter()
        for counters, sign in ((before, -1), (after, 1)):
            for flow in counters["flows"]:
                grown[flow["source"], flow["destination"], flow["source_port"], flow["spine"]] += sign * flow["bytes"]
        seen = {}
        for (*flow, spine), count in grown.items():
            if count > 0:
                spines, sum_ = seen.get(tuple(flow), (set(), 0))
                seen[tuple(flow)] = (spines | {spine}, sum_ + count)
        return seen

    def way(self, source, destination, port):
        spines, _ = self.packets(self.before, self.after).get((source, destination, port), (set(), 0))
        return sorted(spines)

    def bits(self, node, link):
        """Per second, out of the node's interface."""
        out = lambda counters: next(i["out_bytes"] for i in counters["interfaces"] if i["node"] == node and i["link"] == link)
        return 8 * (out(self.after) - out(self.before)) / self.seconds

    def node(self, node, *words):
        return self.lab.run("lab", "exec", "--name", self.lab.name, node, "--", *words)

    def addresses(self, node):
        return {a["local"] for i in json.loads(self.node(node, "ip", "-j", "addr")) for a in i["addr_info"]}

    def is_up(self, link):
        """Whether both ends of a link have a carrier."""
        ends = {(i["node"], i["interface"]) for i in self.after["interfaces"] if i["link"] == link}
        return all("LOWER_UP" in json.loads(self.node(node, "ip", "-j", "link", "show", "dev", port))[0]["flags"]
                   for node, port in ends)

    def peers(self):
        """Addresses with a connection to the controller."""
        lines = self.node("controller", "ss", "-Htn", "state", "established").splitlines()
        return {line.split()[-1].rsplit(":", 1)[0].strip("[]").removeprefix("::ffff:") for line in lines}

    def sent(self, source, destination, port):
        """The spine over which packets of this port go."""
        before = self.counters()
        self.node(source, "python3", "-c", SEND.format(port=port, to=destination))
        seen = {}
        self.lab.wait(lambda: seen.update(self.packets(before, self.counters())) or any(key[2] == port for key in seen), 5)
        return sorted(next((spines for key, (spines, _) in seen.items() if key[2] == port), set()))


def of_flows(answers, judge):
    for flow in answers["flows"]["flows"]:
        name, port = flow["flow"], flow["source_port"]
        ends = (flow["source_address"], flow["destination_address"])
        yield "flows", f"{name} is {flow['status']} over {flow['via']} with port {port}", \
            lambda e=ends, p=port, v=flow["via"]: (judge.way(*e, p), judge.way(*e, p) == [v])
        yield "flows", f"{name} comes from {flow['source']} at {ends[0]}", \
            lambda f=flow, e=ends: (sorted(judge.addresses(f["source"])), e[0] in judge.addresses(f["source"]))
        chosen = [path["via"] for path in answers["explain"][name]["paths"] if path["chosen"]]
        yield "explain", f"{name} takes {chosen}", lambda e=ends, p=port, c=chosen: (judge.way(*e, p), judge.way(*e, p) == c)
        if flow["job"] == "steady":
            bits = lambda e=ends, p=port: 8 * judge.packets(judge.before, judge.after)[(*e, p)][1] / judge.seconds
            yield "flows", f"{name} sends {flow['achieved_bps']} bit/s", \
                lambda f=flow, b=bits: (round(b()), near(f["achieved_bps"], b(), 0.25))
            done = STEADY["bytes"] - flow["remaining_bytes"]
            counted = lambda e=ends: sum(f["bytes"] for f in judge.before["flows"] if (f["source"], f["destination"]) == e)
            yield "flows", f"{name} has sent {done} bytes", lambda d=done, c=counted: (c(), near(d, c(), 0.2))


def of_links(answers, judge):
    steady = next(hop["direction"] for name, one in answers["explain"].items() if one["flow"]["job"] == "steady"
                  for path in one["paths"] if path["chosen"] for hop in path["links"])  # up from the leaf, with nothing else
    for link in answers["links"]["links"]:
        yield "links", f"{link['id']} is {link['state']}", \
            lambda l=link: (judge.is_up(l["id"]), judge.is_up(l["id"]) == (l["state"] == "UP"))
        most = 1e9 * float(link["gbps"])
        for node, side in ((link["a"], "a_to_b"), (link["b"], "b_to_a")):
            shown = int(link[f"bps_{side}"])
            if "h" in (link["a"][0], link["b"][0]):
                continue
            yield "links", f"{link['id']} carries at most its speed out of {node}", \
                lambda s=shown, m=most: (round(m), int(s) <= m)
            if steady in (f"{link['id']}>{link[other]}" for other in "ab" if link[other] != node):
                yield "links", f"{link['id']} carries {shown} bit/s out of {node}", \
                    lambda n=node, l=link, s=shown: (round(judge.bits(n, l["id"])), near(s, judge.bits(n, l["id"]), 0.3))
    top = answers["top"]["links"][0]
    yield "top", f"{top['id']} is used by {top['percent']} %", \
        lambda: ("100 at most, and some traffic", 0 < float(top["percent"]) <= 100)


def of_the_fabric(answers, judge):
    status = answers["status"]
    yield "status", f"{status['flows']} flows are open", lambda: (FLOWS, int(status["flows"]) == FLOWS)
    for agent in answers["agents"]["agents"]:
        here = lambda a=agent: bool(judge.addresses(a["name"]) & judge.peers())
        yield "agents", f"{agent['name']} is connected: {agent['connected']}", \
            lambda a=agent, h=here: (h(), h() == a["connected"])
    for node in answers["nodes"]["nodes"]:
        yield "nodes", f"there is a node {node['id']}", lambda n=node: (judge.node(n["id"], "echo", "here").strip(), True)
    for event in answers["events"]["events"]:
        if event["kind"] in ("link_drained", "link_undrained"):
            yield "events", f"{event['kind']} {event['text']}", \
                lambda e=event: ("drain and undrain link leaf0--spine1", "link=leaf0--spine1 " in e["text"])
    for entry in answers["audit"]["audit"]:
        yield "audit", f"{entry['action']}, {entry['reason']}", \
            lambda a=entry: (REASON, a["reason"] in (REASON, "") and "drain" in json.dumps(a))
    for answer in answers["probe"]["ports"]:
        if answer.get("via"):
            yield "probe", f"port {answer['port']} of h1 to h3 goes over {answer['via']}", \
                lambda a=answer: (found := judge.sent("h1", answers["probe_to"], a["port"]), found == [a["via"]])


def of_jobs(answers, log):
    """Judged by the generator's log, which comes when it ends."""
    ring = next(job for job in log["jobs"] if job["job"] == "ring")["epoch_seconds"]
    phased = [i["phases"][0]["seconds"] for i in log["phased_jobs"][0]["iterations"]]
    for job in answers["jobs"]["jobs"]:
        logged = {"ring": ring, "phased": phased}.get(job["job"])
        if logged is None or job["rounds"] == 0:
            continue
        median = statistics.median(logged[:job["rounds"]])
        shown = job["allreduce_seconds"]
        yield "jobs", f"{job['job']} takes {shown:.3f} s a round", lambda m=median, s=shown: (round(m, 3), near(m, s, 0.1))
        yield "jobs", f"{job['job']} has ended {job['rounds']} rounds", \
            lambda j=job, n=len(logged): (f"{n} in all, later", 0 < j["rounds"] <= n)


def checks(folder, seed=SEED):
    with Lab(folder, 2) as lab:
        lab.say("drain", "link", "leaf0--spine1", "--reason", REASON)
        lab.say("undrain", "link", "leaf0--spine1")
        with lab.traffic(WORKLOAD, seconds=120) as process:
            rounds = lambda: {job["job"]: job["rounds"] for job in lab.ask("jobs")["jobs"]}
            if lab.wait(lambda: min(rounds().get("ring", 0), rounds().get("phased", 0)) >= 6, 60) is None:
                yield check("statements: the traffic", rounds(), "six rounds of each job within a minute", False)
                return
            judge = Judge(lab)
            answers = {name: lab.ask(*words) for name, words in {
                "status": ["status"], "flows": ["flows"], "jobs": ["jobs"], "links": ["links"], "nodes": ["nodes"],
                "agents": ["agents"], "events": ["events", "-n", "1000"], "audit": ["audit"],
                "probe": ["probe", "h1", "h3", "--ports", "8"], "top": ["top", "--once"]}.items()}
            answers["explain"] = {flow["flow"]: lab.ask("explain", flow["flow"]) for flow in answers["flows"]["flows"]}
            judge.close(answers["flows"]["flows"])
            answers["probe_to"] = next(flow["destination_address"] for flow in answers["flows"]["flows"]
                                       if flow["destination"] == "h3")
            live = [*of_flows(answers, judge), *of_links(answers, judge), *of_the_fabric(answers, judge)]
            chance = random.Random(seed)
            drawn = chance.sample(live, min(COUNT - 3, len(live)))
            judged = [(command, text, *holds()) for command, text, holds in drawn]
            out, _ = process.communicate(timeout=150)
        of_log = [*of_jobs(answers, json.loads(out))]
        judged += [(command, text, *holds()) for command, text, holds in chance.sample(of_log, min(3, len(of_log)))]
    yield check(f"statements that can be judged, and drawn with the seed {seed}", f"{len(live) + len(of_log)}, {len(judged)}",
                f"at least {2 * COUNT}, {COUNT}", len(live) + len(of_log) >= 2 * COUNT and len(judged) == COUNT)
    for command, text, found, holds in judged:
        yield check(f"`{command}` says: {text}", found, "as other means find it", holds)
