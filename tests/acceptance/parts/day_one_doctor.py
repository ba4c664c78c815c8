"""What `espalier doctor` says on a host of a lab, which has no RDMA, and of its controller: in a healthy lab, in one
whose switches share a hash seed, and in one with a switch that sprays.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BEHIND_LEAF1 = "10.1.0.1"  # the address of a host of the other leaf
TWO_TIERS = ["--spines", "2", "--leaves", "2", "--hosts-per-leaf", "2"]
THREE_TIERS = ["--pods", "2", "--leaves", "2", "--spines", "2", "--cores", "4", "--hosts-per-leaf", "1"]
STATES = ("ok", "warning", "failed", "skipped")


def check(name, value, aim, ok):
    return {"name": f"doctor, {name}", "value": value, "aim": aim, "ok": bool(ok)}


class Lab:
    """A steered lab of its own with flows between its hosts; use it in a `with` statement."""

    def __init__(self, folder, number, shape, pairs):
        self.espalier, self.name, self.shape = str(folder / "espalier"), f"doctor{number}x{os.getpid()}", shape
        self.flows = [{"id": f"f{a}", "source": f"h{a}", "destination": f"h{b}", "bytes": 10**9} for a, b in pairs]

    def run(self, *words, codes=(0,)):
        done = subprocess.run([self.espalier, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if "namespaces" in done.stderr and done.returncode != 0:
            print(f"skipped: {done.stderr.strip()}", file=sys.stderr)
            sys.exit(77)
        if done.returncode not in codes:
            raise RuntimeError(f"espalier {' '.join(words)}: {done.stderr.strip()}")
        return done

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        up = json.loads(self.run("lab", "up", "--name", self.name, "--link-mbps", "50", "--steered", "--json",
                                 *self.shape).stdout)
        self.stack.callback(self.run, "lab", "down", "--name", self.name)
        self.controller = up["controller_api"]
        self.agent = f"unix:{pathlib.Path(up['topology']).parent}/espalier/h0.sock"
        workload = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "workload.json"
        workload.write_text(json.dumps({"flows": self.flows}))
        traffic = subprocess.Popen([self.espalier, "lab", "traffic", "--name", self.name, "--workload", str(workload),
                                    "--agents", "--json", "--time-limit", "120"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(traffic.wait)
        self.stack.callback(traffic.terminate)
        return self

    def __exit__(self, *_):
        self.stack.close()

    def doctor(self, *options):
        """On host h0."""
        return self.run("lab", "exec", "--name", self.name, "h0", "--", self.espalier, "doctor", "--agent", self.agent,
                        "--controller", self.controller, *options, codes=(0, 1))

    def in_leaf0(self, *words):
        self.run("lab", "exec", "--name", self.name, "leaf0", "--", *words)

    def findings(self, *options):
        done = self.doctor("--json", *options)
        said = json.loads(done.stdout)
        return done.returncode, said, {(one["place"], one["check"]): one for one in said["checks"]}

    def wait_for(self, holds, seconds=90):
        """The findings from when the condition holds of them, or the last ones."""
        end = time.monotonic() + seconds
        while True:
            code, said, by_check = self.findings()
            if holds(by_check) or time.monotonic() > end:
                return code, said, by_check
            time.sleep(0.5)

    def spray(self):
        """leaf0 sends each packet of its hosts over either spine, at random."""
        self.in_leaf0(
            "nft", "add table ip spray; add chain ip spray pre { type filter hook prerouting priority mangle; }; "
            'add rule ip spray pre iifname "h*" meta mark set numgen random mod 2 map { 0 : 101, 1 : 102 }')
        for mark, via, device in ((101, "172.16.0.1", "s0"), (102, "172.16.0.3", "s1")):
            self.in_leaf0("ip", "route", "add", "10.1.0.0/16", "via", via, "dev", device, "table", str(mark))
            self.in_leaf0("ip", "rule", "add", "fwmark", str(mark), "lookup", str(mark))


def state_of(by_check, name, place="controller"):
    return by_check[place, name]["state"]


def outline(found):
    return f"{found['state']}: {found['found']}"


def healthy(lab):
    wanted = ("health", "agents", "source_port", "polarisation", "spraying", "capacity")
    code, said, by_check = lab.wait_for(lambda found: all(state_of(found, one) == "ok" for one in wanted)
                                        and state_of(found, "agent", "host") == "ok")
    states = {one: state_of(by_check, one) for one in wanted}
    yield check("a healthy lab: the fabric and its controller", states, "all ok", set(states.values()) == {"ok"})
    failed = [f"{one['check']}: {one['found']}" for one in said["checks"] if one["state"] == "failed"]
    yield check("  checks that failed, and the exit code", f"{failed or 'none'}, {code}", "none, 0",
                not failed and code == 0)
    yield check("  the agent of the host", outline(by_check["host", "agent"]), "ok",
                state_of(by_check, "agent", "host") == "ok")
    rdma = [one for one in ("device", "gid", "port", "mtu", "ecn", "pfc", "counters")
            if state_of(by_check, one, "host") != "skipped" or not by_check["host", one]["found"]]
    yield check("  on a host without RDMA, checks that claim to know", ", ".join(rdma) or "none", "none", not rdma)
    counts = {state: sum(one["state"] == state for one in said["checks"]) for state in STATES}
    yield check("  counts of states", counts, "as in its list", counts == {state: said[state] for state in STATES})
    text = lab.doctor().stdout
    missing = [one["check"] for one in said["checks"] if one["check"] not in text]
    yield check("  checks that the table lacks", missing or "none", "none", not missing and text.startswith("PLACE"))
    without = [one["check"] for one in said["checks"] if one["state"] in ("warning", "failed") and not one["remedy"]]
    yield check("  warnings without a remedy", without or "none", "none", not without)


def paths_of_ports(lab):
    """From a host alone, without its controller."""
    def tried():
        by_check = lab.findings("--toward", BEHIND_LEAF1)[2]
        return {one: by_check["host", one] for one in ("path_answers", "path_port", "path_spraying")}
    found = tried()
    yield check("the paths of ports from a host alone", {one: outline(found[one]) for one in found}, "all ok",
                all(one["state"] == "ok" for one in found.values()))
    policy = "/proc/sys/net/ipv4/fib_multipath_hash_policy"
    lab.in_leaf0("sh", "-c", f"echo 0 > {policy}")
    found = tried()["path_port"]
    lab.in_leaf0("sh", "-c", f"echo 1 > {policy}")
    yield check("  of a leaf that does not hash ports", outline(found), "failed, with the remedy",
                found["state"] == "failed" and "layer 4" in found["remedy"])
    lab.spray()
    found = tried()["path_spraying"]
    yield check("  of a leaf that sprays", f"{found['subject']}, {outline(found)}", "warning, with its address",
                found["state"] == "warning" and found["subject"] != "")


def spraying(lab):
    _, _, by_check = lab.wait_for(lambda found: state_of(found, "spraying") == "warning")
    found = by_check["controller", "spraying"]
    yield check("a switch that sprays", f"{found['subject']}, {outline(found)}", "warning, with leaf0 and its hosts",
                found["state"] == "warning" and found["subject"] == "leaf0" and "h0" in found["found"]
                and "spraying" in found["remedy"])


def equal_seeds(lab):
    code, _, by_check = lab.wait_for(lambda found: state_of(found, "polarisation") == "failed")
    found = by_check["controller", "polarisation"]
    yield check("switches with equal seeds", outline(found), "failed, 50 % of the paths, one named",
                found["state"] == "failed" and "50 %" in found["found"] and "core" in found["found"])
    yield check("  the switch setting that mends it, and the exit code", f"{found['remedy'][:60]}..., {code}",
                "ecmp_hash_offset, 1", "ecmp_hash_offset" in found["remedy"] and code == 1)


def checks(folder, quick):
    with Lab(folder, 0, TWO_TIERS, [(0, 2), (1, 3)]) as lab:
        yield from healthy(lab)
        yield from paths_of_ports(lab)
        yield from spraying(lab)
    with Lab(folder, 1, [*THREE_TIERS, "--hash-seeds", "equal"], [(0, 2), (1, 3), (2, 0), (3, 1)]) as lab:
        yield from equal_seeds(lab)
