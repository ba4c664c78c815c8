"""Links of live fabrics that lose packets, links that are dead, and links without any fault under all kinds of load.

Each case runs in a lab of its own, with the real controller and a real agent in each host, and is driven by the
command line only, so that it can also run the programs of another release (--old FOLDER)."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TARGETS = ["espalier", "espalier-controller", "espalier-agent", "espalier-traffic"]

MBPS = 20
HOSTS = 16
PORT = 7400
COMPUTE = 0.3  # seconds that the first job computes in a round


class Lab:
    """A lab with its daemons. Ends with the context."""

    config = ""  # further lines of the controller's configuration

    def __init__(self, folder, name, shape=(), seed=1, old=False):
        self.bin = pathlib.Path(folder)
        self.name = name
        self.shape = list(shape) or ["--spines", "4", "--leaves", "4", "--hosts-per-leaf", "4"]
        self.seed = seed
        self.old = old
        self.processes = []
        self.files = None

    def espalier(self, *arguments, check=True):
        done = subprocess.run([str(self.bin / "espalier"), *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            sys.exit(f"espalier {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout

    def run(self, node, *command, check=True):
        return self.espalier("lab", "exec", "--name", self.name, node, "--", *command, check=check)

    def start(self, node, *command, log="log"):
        with open(self.files / log, "a", encoding="utf-8") as output:
            self.processes.append(subprocess.Popen(
                [str(self.bin / "espalier"), "lab", "exec", "--name", self.name, node, "--", *command],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))
        return self.processes[-1]

    def __enter__(self):
        self.files = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.espalier("lab", "down", "--name", self.name, check=False)
        up = json.loads(self.espalier("lab", "up", "--name", self.name, *self.shape, "--link-mbps", str(MBPS),
                                      "--seed", str(self.seed), "--json"))
        self.topology = json.loads(pathlib.Path(up["topology"]).read_text(encoding="utf-8"))
        self.hosts = sorted({node["host"] if "host" in node else node["id"] for node in self.topology["nodes"]
                             if node["kind"] != "SWITCH"}, key=lambda name: int(name[1:]))
        (self.files / "controller.conf").write_text(
            f'topology_file: "{up["topology"]}"\nlisten: "tcp://{up["controller_address"]}:{PORT}"\n'
            f'state_file: "{self.files}/store.db"\nhttp: "unix:{self.files}/http"\ninsecure_plaintext: true\n'
            f'hash_ignores_protocol: true\nlog_level: "info"\n' + self.config +
            ("" if self.old else "full_queue_us: 50000\n"), encoding="utf-8")
        for host in self.hosts:
            local = self.run(host, "sh", "-c", "echo $ESPALIER_AGENT_SOCKET").strip()
            (self.files / f"{host}.conf").write_text(
                f'name: "{host}"\ncontroller: "tcp://{up["controller_address"]}:{PORT}"\n'
                f'insecure_plaintext: true\nlocal_socket: "{local}"\nnic: "eth0"\n'
                f'http: "unix:{self.files}/{host}.http"\nlog_level: "info"\n', encoding="utf-8")
            self.start(host, str(self.bin / "espalier-agent"), "--config", str(self.files / f"{host}.conf"),
                       log=f"{host}.log")
        self.start("controller", str(self.bin / "espalier-controller"), "--config",
                   str(self.files / "controller.conf"), log="controller.log")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                if len([one for one in self.get("agents")["agents"] if one["connected"]]) == len(self.hosts):
                    return self
            time.sleep(0.1)
        sys.exit(f"{self.name}: not all agents have connected: {self.files}")

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        self.espalier("lab", "down", "--name", self.name, check=False)
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.files, ignore_errors=True)

    def ask(self, path, daemon="http"):
        """The body of an answer of a daemon, by the name of its socket: http is the controller's."""
        with socket.socket(socket.AF_UNIX) as http:
            http.settimeout(5)
            http.connect(f"{self.files}/{daemon}")
            http.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
            answer = b""
            while piece := http.recv(65536):
                answer += piece
        return answer.split(b"\r\n\r\n", 1)[1].decode()

    def get(self, path):
        return json.loads(self.ask(f"/api/v1/{path}"))

    def metrics(self, pattern, daemon="http"):
        """The metrics without labels of a daemon (by the name of its socket) that match."""
        found = re.findall(rf"^espalier_({pattern}) ([\d.e+]+)$", self.ask("/metrics", daemon), re.M)
        return {name: float(value) for name, value in found}

    def counters(self):
        """What the controller has counted of its tests."""
        return self.metrics(r"controller_test_\w+|controller_links_in_focus")

    def processor_seconds(self, program):
        """The processor time that the processes of this program in the lab have used."""
        total = 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(program.encode()) and any(str(self.files).encode() in word for word in words):
                    fields = (process / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
                    total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def links(self):
        return {link["id"]: link for link in self.get("links")["links"]}

    def out_of_use(self):
        """The links between switches that are not UP, with their states."""
        return {name: link["state"] for name, link in self.links().items()
                if link["state"] != "UP" and not name.startswith("h")}

    def events(self, *kinds):
        return [event for event in self.get("events")["events"] if event["kind"] in kinds]

    def port(self, source, target):
        """The name of the interface of a switch towards another one, and the link between them."""
        for link in self.topology["links"]:
            for ends in (("a", "b"), ("b", "a")):
                if link[ends[0]] == source and link[ends[1]] == target:
                    return link[ends[0] + "_port"], link.get("id", f"{link['a']}--{link['b']}")
        sys.exit(f"no link from {source} to {target}")

    def lose(self, source, target, percent, match=""):
        """Lets a switch drop a part of what it forwards over a link."""
        port, link = self.port(source, target)
        self.run(source, "nft", "add table inet loss; add chain inet loss forward { type filter hook forward "
                 f"priority 0; }}; add rule inet loss forward oifname {port} {match} " +
                 ("drop" if percent >= 100 else f"numgen random mod 10000 < {int(percent * 100)} drop"))
        return link

    def heal(self, node):
        self.run(node, "nft", "delete table inet loss", check=False)

    def traffic(self, workload, agents=True, seconds=86400):
        """Starts traffic. Its result, as JSON, is in the process's `result` when it has ended."""
        path = self.files / f"work-{len(self.processes)}.json"
        path.write_text(json.dumps(workload), encoding="utf-8")
        result = path.with_suffix(".out")
        with open(result, "w", encoding="utf-8") as output:
            self.processes.append(subprocess.Popen(
                [str(self.bin / "espalier"), "lab", "traffic", "--name", self.name, "--workload", str(path), "--json",
                 "--time-limit", str(seconds), "--seed", str(self.seed)] + (["--agents"] if agents else []),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL))
        process = self.processes[-1]
        process.result = result
        process.began = time.monotonic()
        time.sleep(1)
        if process.poll() is not None:
            sys.exit(f"{self.name}: the traffic has ended: {result.read_text()}")
        return process


def rounds(result, computes):
    """When each round of the first phased job ended, in seconds since the start, and how long it communicated.

    Approximate by what starting the traffic and its hosts takes, some tenths of a second."""
    at, found = 0.0, []
    for iteration in result["phased_jobs"][0]["iterations"]:
        seconds = sum(phase["seconds"] for phase in iteration["phases"])
        at += computes + seconds
        found.append((at, seconds))
    return found


def jobs(hosts, queue_pairs=1):
    """Two jobs whose bursts alternate with computing: shifts by one and by two leaves."""
    def job(name, distance, compute):
        bursts = [{"source": hosts[i], "destination": hosts[(i + distance) % len(hosts)], "bytes": 500_000}
                  for i in range(0 if name == "A" else 1, len(hosts), 2)]
        return {"id": name, "iterations": 1_000_000, "queue_pairs": queue_pairs, "phases": [
            {"name": "exchange", "compute_seconds": compute, "bursts": bursts}]}
    quarter = max(1, len(hosts) // 4)
    return {"segment_bytes": 50_000, "phased_jobs": [job("A", quarter, COMPUTE), job("B", 2 * quarter, 0.4)]}


def flood(hosts, seed):
    """Endless flows that nobody steers, two from each host."""
    chance = random.Random(seed)
    flows = []
    for i, host in enumerate(hosts):
        for k in range(2):
            other = chance.choice([one for j, one in enumerate(hosts) if j // 4 != i // 4])
            flows.append({"id": f"flood{i}-{k}", "source": host, "destination": other, "bytes": 10**12,
                          "announced": False})
    return {"segment_bytes": 100_000, "flows": flows}


def load(lab, kind, seconds=86400):
    """Starts the traffic of this kind, for at most so many seconds; None for a fabric that stays idle."""
    if kind in ("jobs", "split"):
        return lab.traffic(jobs(lab.hosts, 4 if kind == "split" else 1), seconds=seconds)
    if kind == "full":
        return lab.traffic({**jobs(lab.hosts), **flood(lab.hosts, lab.seed)}, seconds=seconds)
    return None


def wait(condition, seconds):
    """Seconds until the condition holds; None: it does not within that time."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        with contextlib.suppress(OSError, ValueError):
            if condition():
                return time.monotonic() - start
        time.sleep(0.05)
    return None


def learn(lab):
    """Lets the controller learn the paths of its probes."""
    time.sleep(8)


def fault(folder, name, source, target, percent, match="", kind="jobs", most=10, seed=1, old=False, shape=(),
          heals=False):
    """One lossy direction, which flows ought to leave within `most` seconds: when they have, and links that left
    service wrongly."""
    with Lab(folder, name, shape, seed, old) as lab:
        traffic = load(lab, kind, 86400 if heals else 15 + most)
        learn(lab)
        before = lab.out_of_use()
        began = time.monotonic()
        link = lab.lose(source, target, percent, match)
        seconds = wait(lambda: lab.links()[link]["state"] in ("LOSSY", "SLOW", "DOWN"), 4 * most + 20)
        wrong = {name: state for name, state in {**before, **lab.out_of_use()}.items() if name != link}
        words = lab.links()[link].get("why", {}).get("words", "")
        back = None
        if heals and seconds is not None:
            lab.heal(source)
            back = wait(lambda: lab.links()[link]["state"] == "UP", 240)
            time.sleep(20)
            wrong.update({name: state for name, state in lab.out_of_use().items()})
        counters = lab.counters()
        events = lab.events("link_lossy", "link_slow", "link_detected_down", "nic_lossy", "links_undecided")
        times = None
        if not heals and seconds is not None:
            traffic.wait()
            of = rounds(json.loads(traffic.result.read_text(encoding="utf-8")), COMPUTE)
            times = phases_of(of, began - traffic.began, began - traffic.began + seconds)
        return {"counters": counters, "link": link, "seconds": seconds, "wrong": wrong, "words": words, "back": back,
                "events": events, "rounds": times}


def phases_of(found, fault_at, left_at):
    """Communication of a round, in seconds: the median before the fault, the worst one from the fault until 3 s after
    flows have left, and the median from then on. None where there was no round."""
    before = [seconds for at, seconds in found if at < fault_at]
    during = [seconds for at, seconds in found if fault_at <= at < left_at + 3]
    after = [seconds for at, seconds in found if at >= left_at + 3]
    return (statistics.median(before) if before else None, max(during, default=None),
            statistics.median(after) if after else None)


def sound(folder, name, kind, minutes, seed=1, shape=(), dead=None):
    """A fabric without a fault (or with one dead spine): links that left service wrongly."""
    with Lab(folder, name, shape, seed) as lab:
        load(lab, kind)
        learn(lab)
        if dead is not None:
            for leaf in range(4):
                lab.lose(dead, f"leaf{leaf}", 100)
                lab.lose(f"leaf{leaf}", dead, 100)
        time.sleep(60 * minutes)
        events = lab.events("link_lossy", "link_slow", "link_detected_down", "nic_lossy", "links_undecided")
        return {"counters": lab.counters(),
                "events": [event for event in events if dead is None or f"--{dead} " not in event["text"]]}


# Percent lost, of which packets, under which load, and the seconds within which flows must have left the link.
TCP = "meta l4proto tcp"
FAULTS = [
    (10, "", "jobs", 10), (5, "", "jobs", 10), (2, "", "jobs", 15), (1, "", "jobs", 30),
    (10, TCP, "jobs", 10), (5, TCP, "jobs", 10), (2, TCP, "jobs", 15), (1, TCP, "jobs", 30),
    (5, "ip dscp 26", "jobs", 10), (100, "", "jobs", 1),
    (10, "", "full", 15), (5, "", "full", 15), (2, "", "full", 60), (1, "", "full", 120),
]
THREE_TIERS = ["--pods", "2", "--leaves", "2", "--spines", "2", "--cores", "4", "--hosts-per-leaf", "4"]
# The load, the shape of the fabric, and a spine that is dead. "split": each flow is four connections.
SOUND = [("full", (), None), ("full", THREE_TIERS, None), ("jobs", (), "spine2"), ("jobs", (), None),
         ("split", (), None), ("idle", (), None)]


def direction(seed):
    """An uplink and a downlink in turn, of another leaf and spine each time."""
    leaf, spine = f"leaf{seed % 4}", f"spine{(seed * 3 + 1) % 4}"
    return (spine, leaf) if seed % 2 == 0 else (leaf, spine)


def check(name, value, aim, ok):
    return {"name": f"links, {name}", "value": value, "aim": aim, "ok": bool(ok)}


@contextlib.contextmanager
def busy_loops(count):
    """So many processes that do nothing but use the processor."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def checks(folder, seeds, minutes, before=None, at_once=1, only=("",), busy=0):
    """The rows whose names contain one of these texts, with so many labs at once. Their cases wait in one queue, and a
    row is given when its last one has ended; the long ones come first."""
    with busy_loops(busy), concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        rows = []

        def add(row, words, name, cases):
            if any(text in name for text in only):
                rows.append((row, words, name, [pool.submit(*case) for case in cases]))

        for i, words in enumerate(SOUND):
            add(sound_row, (minutes,), sound_name(*words),
                [(sound, folder, f"sound{i}-{seed}", words[0], minutes, seed, *words[1:])
                 for seed in range(1, seeds + 1)])
        for i, words in enumerate(FAULTS):
            for release, of in ((folder, "now"), *(((before, "old"),) if before is not None else ())):
                add(fault_row, (words[3], of == "old"), fault_name(*words),
                    [(fault, release, f"{of}{i}-{seed}", *direction(seed), *words, seed, of == "old")
                     for seed in range(1, seeds + 1)])
        add(heal_row, (), "seconds from healing until the link is used again, once",
            [(heals, folder)])
        if not rows:
            sys.exit(f"no row of the links has a name with {' or '.join(only)}")
        for row, words, name, cases in rows:
            yield from row(name, [case.result() for case in cases], *words)


def heals(folder):
    return fault(folder, "heals", *direction(2), 10, seed=2, heals=True)


def sound_name(kind, shape, dead):
    return "sound fabric, " + ("three tiers, " if shape else "") + (f"{dead} is dead, " if dead else "") + kind


def fault_name(percent, match, kind, _):
    return f"{percent} % of {({'': 'everything', TCP: 'TCP'}).get(match, match)} lost, {kind}"


def in_words(seconds):
    return "never" if seconds is None else f"{seconds:.1f}"


def fault_row(row, found, most, old):
    """Faults of one kind on several fabrics."""
    seconds = [one["seconds"] for one in found]
    value = ", ".join(map(in_words, seconds))
    wrong = sum(len(one["wrong"]) for one in found)
    if old:
        yield check(f"{row}, the release before: seconds until flows have left; other links out of use",
                    f"{value}; {wrong}", "none, to compare", True)
    else:
        yield check(f"{row}: seconds until flows have left", value, f"at most {most}",
                    all(one is not None and one <= most for one in seconds))
        yield check(f"{row}: other links out of use", wrong, 0, wrong == 0)
    times = ["not left" if one["rounds"] is None else "/".join("-" if one is None else f"{one:.2f}" for one in one["rounds"])
             for one in found]
    yield check(f"{row}{', the release before' if old else ''}: a job's rounds in seconds (median before, worst until "
                "left, median after)", ", ".join(times), "none, to compare", True)


def heal_row(row, found):
    healed = found[0]
    yield check(row, None if healed["back"] is None else round(healed["back"], 1), "at most 60",
                healed["back"] is not None and healed["back"] <= 60 and not healed["wrong"])


def sound_row(row, found, minutes):
    events = [event for one in found for event in one["events"]]
    trains = sum(one["counters"]["controller_test_trains_total"] for one in found)
    yield check(f"{row}, {len(found)} times {minutes:g} minutes: links out of use or doubted",
                f"{len(events)} in {trains:.0f} trains" + "".join(f"; {event['text']}" for event in events[:3]), 0,
                not events)


def daemon_costs(folder, old):
    """What the daemons of a lab with two jobs cost while nothing is wrong, by second."""
    seconds = 30
    with Lab(folder, "costs", old=old) as lab:
        load(lab, "jobs")
        learn(lab)
        sent = r"agent_probes_sent_total|agent_train_packets_sent_total"
        def now():
            return {"agent": lab.processor_seconds("espalier-agent") / len(lab.hosts),
                    "controller": lab.processor_seconds("espalier-controller"),
                    "packets": sum(sum(lab.metrics(sent, f"{host}.http").values()) for host in lab.hosts) / len(lab.hosts)}
        first = now()
        time.sleep(seconds)
        return {name: (value - first[name]) / seconds for name, value in now().items()}
