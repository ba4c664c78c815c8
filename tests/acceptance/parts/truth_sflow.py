"""What espalier-telemetry says of a live fabric whose switches sample packets with a real agent (pmacct's uacctd).

The counters of the lab's links judge: they count every packet, and neither the sampling agents nor the collector see
them."""

import json
import shutil
import struct
import sys
import time

from parts import link_faults

TARGETS = [*link_faults.TARGETS, "espalier-telemetry"]
SAMPLING = 16
SHAPE = ["--spines", "2", "--leaves", "2", "--hosts-per-leaf", "2"]
SENDER = """
import socket, sys, time
target, port, megabits, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.bind(("0.0.0.0", port))
payload = b"x" * 1000
start, sent = time.monotonic(), 0
while (now := time.monotonic() - start) < seconds:
    while sent * 1042 * 8 < now * megabits * 1e6:
        out.sendto(payload, (target, 4792))
        sent += 1
    time.sleep(0.002)
"""
RECEIVER = """
import socket
into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
into.bind(("0.0.0.0", 4792))
while True:
    into.recv(2000)
"""


class SampledLab(link_faults.Lab):
    """A lab with a sampling agent in every switch, and the collector beside the controller."""

    def __enter__(self):
        super().__enter__()
        self.switches = [node["id"] for node in self.topology["nodes"] if node["kind"] == "SWITCH"]
        self.agents = {}
        config = [f'controller: "unix:{self.files}/http"', f'http: "unix:{self.files}/telemetry"',
                  'listen: "0.0.0.0:6343"', 'max_age_seconds: 10',
                  f'topology_file: "{self.files}/topology.json"']
        (self.files / "topology.json").write_text(json.dumps(self.topology), encoding="utf-8")
        for number, switch in enumerate(self.switches):
            self.connect(number, switch)
            config.append(f'exporter: "{switch} 10.254.{number}.2"')
            for link in self.topology["links"]:
                for end, port in (("a", "a_port"), ("b", "b_port")):
                    if link[end] == switch:
                        index = self.run(switch, "ip", "-o", "link", "show", "dev", link[port]).split(":")[0]
                        config.append(f'port: "{switch} {index} {link.get("id", link["a"] + "--" + link["b"])}"')
        (self.files / "telemetry.conf").write_text("\n".join(config) + "\n", encoding="utf-8")
        self.start("controller", str(self.bin / "espalier-telemetry"), "--config",
                   str(self.files / "telemetry.conf"), log="telemetry.log")
        for number, switch in enumerate(self.switches):
            self.sample(number, switch)
        return self

    def connect(self, number, switch):
        """A management link from the controller's node to a switch."""
        near, far = f"mgs{number}", f"mg{number}"
        self.run("controller", "ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", switch)
        self.run("controller", "ip", "addr", "add", f"10.254.{number}.1/30", "dev", near)
        self.run("controller", "ip", "link", "set", near, "up")
        self.run(switch, "ip", "addr", "add", f"10.254.{number}.2/30", "dev", far)
        self.run(switch, "ip", "link", "set", far, "up")

    def sample(self, number, switch):
        self.run(switch, "nft", "add table inet sflow; add chain inet sflow sample { type filter hook forward "
                 f"priority 0; }}; add rule inet sflow sample numgen random mod {SAMPLING} == 0 log group "
                 f"{5 + number} snaplen 128 queue-threshold 1")
        (self.files / f"{switch}.uacctd").write_text(
            f"daemonize: false\nuacctd_group: {5 + number}\nuacctd_ext_sampling_rate: {SAMPLING}\n"
            "uacctd_nl_size: 2097152\nsnaplen: 256\nplugins: sfprobe[s]\n"
            f"sfprobe_receiver[s]: 10.254.{number}.1:6343\nsfprobe_agentip[s]: 10.254.{number}.2\n", encoding="utf-8")
        self.agents[switch] = self.start(switch, "uacctd", "-f", str(self.files / f"{switch}.uacctd"),
                                         log=f"{switch}.log")

    def metric(self, name):
        for line in self.ask("/metrics", "telemetry").splitlines():
            if line.startswith(f"espalier_telemetry_{name} "):
                return float(line.split()[1])
        return 0.0

    def sampled(self, port):
        """The sampled flow with this source port; None: none is known."""
        flows = json.loads(self.ask("/flows?limit=1000", "telemetry"))["flows"]
        return next((flow for flow in flows if flow["source_port"] == port and flow["destination_port"] == 4792), None)

    def octets(self):
        """Bytes that have crossed each direction of a link between switches, by the lab's counters."""
        ends = {link.get("id", f"{link['a']}--{link['b']}"): (link["a"], link["b"]) for link in self.topology["links"]}
        counted = json.loads(self.espalier("lab", "counters", "--name", self.name, "--json"))
        octets = {}
        for one in counted["interfaces"]:
            a, b = ends[one["link"]]
            if a in self.switches and b in self.switches:
                octets[f"{one['link']}>{b if one['node'] == a else a}"] = one["out_bytes"]
        return octets

    def rates(self, seconds):
        """The rates of the directions of links between switches over so many seconds, in bit/s."""
        before, start = self.octets(), time.monotonic()
        time.sleep(seconds)
        after, passed = self.octets(), time.monotonic() - start
        return {link: (after[link] - before[link]) * 8 / passed for link in after}

    def send(self, source, target, port, megabits, seconds):
        address = next(node["addresses"][0] for node in self.topology["nodes"] if node["id"] == target)
        return self.start(source, "python3", "-c", SENDER, address, str(port), str(megabits), str(seconds),
                          log="sender.log")


def spoof(lab):
    """Datagrams of a stranger, in the name of a switch, and rubbish."""
    forged = struct.pack(">IIIIIII", 5, 1, 0x0AFE0002, 0, 999, 10_000, 0)
    script = (f"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
              f"[s.sendto(bytes.fromhex('{forged.hex()}'), ('127.0.0.1', 6343)) for _ in range(50)]; "
              "[s.sendto(b'x' * n, ('127.0.0.1', 6343)) for n in range(100)]")
    lab.run("controller", "python3", "-c", script)


def run(report, folder, name="truth", seconds=20):
    if shutil.which("uacctd") is None:
        sys.exit("there is no uacctd here (deploy/setup installs the package pmacct)")
    with SampledLab(folder, name, SHAPE) as lab:
        for host in ("h2", "h3"):
            lab.start(host, "python3", "-c", RECEIVER, log="receiver.log")
        lab.send("h0", "h2", 50_001, 6, 300)
        only = {link for link, rate in lab.rates(5).items() if rate > 2e6}
        flow = lab.sampled(50_001) or {"links": []}
        links = {one["link"] for one in flow["links"] if not one["link"].startswith("h")}
        report.add("a flow that nobody announced is alone: the links between switches of its samples", sorted(links),
                   f"those that the counters show busy: {sorted(only)}", len(only) == 2 and links == only)
        lab.send("h1", "h3", 50_002, 3, 300)
        heard = link_faults.wait(lambda: lab.metric("exporters_silent") == 0, 30)
        report.add("every switch with traffic is heard", heard is not None or
                   [one["node"] for one in json.loads(lab.ask("/exporters", "telemetry"))["exporters"] if one["silent"]],
                   "both leaves and the spines that carry traffic", heard is not None or
                   lab.metric("exporters_silent") <= 1)
        seen = link_faults.wait(lambda: all(lab.sampled(port) for port in (50_001, 50_002)), 20)
        report.add("two flows that nobody announced are seen", "never" if seen is None else f"{seen:.1f} s",
                   "within 20 s", seen is not None)
        rates = lab.rates(seconds)
        busy = {link for link, rate in rates.items() if rate > 2e6}
        for port, megabits in ((50_001, 6), (50_002, 3)):
            flow = lab.sampled(port)
            error = abs(flow["bps"] / 1e6 - megabits) / megabits
            report.add(f"flow from port {port}: its rate", f"{flow['bps'] / 1e6:.2f} Mbit/s (own error "
                       f"{100 * flow['error']:.0f} %)", f"{megabits} Mbit/s, to one and a half times its own error", error < 1.5 * flow["error"])
        known = {f"{link['id']}>{end}": load for link in lab.get("links")["links"]
                 for end, load in background(link).items()}
        errors = {link: abs(known.get(link, 0) - rates[link]) / 20e6 for link in busy}
        report.add("the controller's background load of the busy links, against the counters",
                   {link: f"{known.get(link, 0) / 1e6:.1f} for {rates[link] / 1e6:.1f}" for link in sorted(busy)},
                   "within a tenth of the link's rate (loads count in sixteenths)", max(errors.values()) < 0.1)
        unannounced = [flow for flow in lab.get("flows/unannounced")["flows"] if flow["destination_port"] == 4792]
        report.add("the controller lists the flows that no agent reports",
                   [f"{flow['source']}>{flow['destination']} {flow['bps'] / 1e6:.1f} Mbit/s" for flow in unannounced],
                   "h0>h2 and h1>h3", {(flow["source"], flow["destination"]) for flow in unannounced} ==
                   {("h0", "h2"), ("h1", "h3")})
        attest(report, lab)
        spoof(lab)
        time.sleep(1)
        report.add("a stranger's datagrams are dropped and counted", f"{lab.metric('datagrams_strange_total'):.0f} strange, "
                   f"{lab.metric('datagrams_malformed_total'):.0f} malformed", "50 and 100",
                   lab.metric("datagrams_strange_total") == 50 and lab.metric("datagrams_malformed_total") == 100)
        before = len(lab.events("background_feed_silent"))
        for agent in lab.agents.values():
            agent.terminate()
        silent = link_faults.wait(lambda: len(lab.events("background_feed_silent")) > before, 60)
        report.add("switches that fall silent are noticed by the controller", "never" if silent is None else
                   f"{silent:.0f} s", "within 60 s (loads last 10 s)", silent is not None)


def attest(report, lab):
    """Steered flows: the switches see each of them where the controller has put it."""
    lab.traffic({"segment_bytes": 100_000, "flows": [
        {"id": f"f{i}", "source": source, "destination": target, "bytes": 10**10}
        for i, (source, target) in enumerate([("h0", "h2"), ("h1", "h3"), ("h2", "h1"), ("h3", "h0")])]})

    def states():
        return [flow["attested"]["state"] for flow in lab.get("flows")["flows"] if flow["status"] == "ROUTED"]
    seconds = link_faults.wait(lambda: len(states()) >= 4 and set(states()) == {"AS_DECIDED"}, 60)
    flows = lab.get("flows")["flows"]
    samples = sum(flow["attested"]["samples"] for flow in flows)
    report.add("every steered flow is attested by the switches", f"{states()}, {samples} samples" if seconds is None else
               f"{len(flows)} flows after {seconds:.1f} s, {samples} samples of the last seconds",
               "4 flows AS_DECIDED within 60 s", seconds is not None)
    decided = {name for flow in flows for name in decided_links(flow)}
    seen = {name for flow in flows for name in flow["attested"]["via"]}
    report.add("they were seen on the links that were decided, and on no other", sorted(seen - decided) or "none elsewhere",
               "none elsewhere", seen <= decided)


def decided_links(flow):
    via = flow["via"]
    return {f"{flow['source_leaf']}--{via}>{via}", f"{flow['destination_leaf']}--{via}>{flow['destination_leaf']}"}


def background(link):
    """The background loads of a link by the node that each direction leads to, in bit/s."""
    loads = {}
    for field, end in (("background_a_to_b", "b"), ("background_b_to_a", "a")):
        if field in link:
            loads[link[end]] = float(link[field]["bps"])
    return loads
