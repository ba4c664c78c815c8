"""What `espalier topology import` makes of an example of each format, of damaged ones, and of a large fabric."""

import collections
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "tests/fuzz/corpus/import"

# (format, file, COMPUTE, NIC, SWITCH, links)
WANTED = [
    ("csv", "cables.csv", 2, 0, 4, 6),
    ("dot", "ptm.dot", 2, 0, 3, 4),
    ("lldp", "leaf0.json", 1, 0, 2, 2),
    ("sonic", "spine0.sonic.json", 0, 0, 3, 2),
    ("sonic", "minigraph.xml", 1, 0, 2, 2),
    ("netbox", "netbox.csv", 1, 0, 2, 2),
    ("netbox", "netbox.json", 1, 0, 3, 3),
    ("containerlab", "lab.clab.yml", 2, 0, 3, 4),
    ("ibnetdiscover", "ib.txt", 1, 0, 2, 2),
    ("ibnetdiscover", "ibsim.txt", 2, 4, 2, 10),
    ("ibnetdiscover", "ibsim-ports.txt", 2, 4, 2, 10),
    ("nccl", "box.xml", 2, 1, 4, 7),
    ("simai", "simai.txt", 4, 4, 5, 14),
    ("floodns", "t.properties", 2, 0, 2, 3),
    ("discovery", "discovery.json", 2, 0, 3, 4),
]
LEAVES, SPINES, HOSTS = 64, 32, 32
SECONDS_AIM = 5.0


def run(folder, *words):
    return subprocess.run([str(folder / "espalier"), "topology", *map(str, words)], capture_output=True,
                          text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=300)


def examples(folder):
    for form, name, *wanted in WANTED:
        made = run(folder, "import", form, EXAMPLES / name)
        found = f"exit code {made.returncode}: {made.stderr.strip()[:200]}"
        if made.returncode == 0:
            topology = json.loads(made.stdout)
            kinds = collections.Counter(node["kind"] for node in topology["nodes"])
            counts = [kinds["COMPUTE"], kinds["NIC"], kinds["SWITCH"], len(topology["links"])]
            found = "{} COMPUTE, {} NIC, {} SWITCH, {} links".format(*counts)
        aim = "{} COMPUTE, {} NIC, {} SWITCH, {} links".format(*wanted)
        yield {"name": f"imports, {form}, {name}", "value": found, "aim": aim, "ok": found == aim}
        for line in made.stderr.splitlines():
            print(f"       {line}", file=sys.stderr)


def damage(data, draw):
    """One of the ways in which files break: cut, a byte changed, a line lost or moved, a mark added."""
    lines = data.split(b"\n")
    at = draw.randrange(len(data))
    line = draw.randrange(len(lines))
    way = draw.randrange(5)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + bytes([draw.randrange(256)]) + data[at + 1:]
    if way == 2:
        return b"\n".join(lines[:line] + lines[line + 1:])
    if way == 3:
        return b"\n".join(lines[:line] + [lines[draw.randrange(len(lines))]] + lines[line:])
    return data[:at] + draw.choice([b'"', b"{", b"]", b",", b"--", b"\t", b"<"]) + data[at:]


def damaged(folder, files):
    """Each is read or refused with its place: no other exit code, and a topology that checks."""
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as scratch:
        for form, name, *_ in WANTED:
            data = (EXAMPLES / name).read_bytes()
            path, made_path = pathlib.Path(scratch) / name, pathlib.Path(scratch) / "made"
            outcomes = collections.Counter()
            for _ in range(files):
                path.write_bytes(damage(data, draw))
                made = run(folder, "import", form, path, "-o", made_path)
                if made.returncode == 0:
                    outcomes["read" if run(folder, "check", made_path).returncode == 0 else "wrong"] += 1
                else:
                    named = made.returncode == 2 and (str(path) in made.stderr or "--switches" in made.stderr)
                    outcomes["refused by name" if named else "wrong"] += 1
            value = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
            yield {"name": f"imports, {files} damaged files, {form}, {name}", "value": value, "aim": "0 wrong",
                   "ok": outcomes["wrong"] == 0}


def large(folder):
    """64 leaves, 32 spines and 2,048 hosts: leaves by LLDP, spines by SONiC's files, hosts by a table."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        rows = ["a_device,a_port,b_device,b_port,gbps,a_address,b_address"]
        for leaf in range(LEAVES):
            neighbours = []
            for spine in range(SPINES):
                neighbours.append({"name": f"Ethernet{200 + spine}", "chassis": [{"name": [{"value": f"spine{spine}.dc"}]}],
                                   "port": [{"id": [{"type": "local", "value": f"etp{leaf}"}]}]})
            (scratch / f"leaf{leaf}.json").write_text(json.dumps({"lldp": [{"interface": neighbours}]}))
            for host in range(HOSTS):
                rows.append(f"h{leaf * HOSTS + host},eth0,leaf{leaf},Ethernet{host},400,10.{leaf}.{host}.1,10.{leaf}.{host}.0")
        for spine in range(SPINES):
            ports = {f"Ethernet{4 * leaf}": {"alias": f"etp{leaf}", "speed": "400000"} for leaf in range(LEAVES)}
            addresses = {f"Ethernet{4 * leaf}|172.16.{leaf}.{2 * spine + 1}/31": {} for leaf in range(LEAVES)}
            bgp = {f"172.16.{leaf}.{2 * spine}": {"name": f"leaf{leaf}", "local_addr": f"172.16.{leaf}.{2 * spine + 1}"}
                   for leaf in range(LEAVES)}
            (scratch / f"spine{spine}.config.json").write_text(json.dumps(
                {"DEVICE_METADATA": {"localhost": {"hostname": f"spine{spine}", "type": "LeafRouter"}},
                 "PORT": ports, "INTERFACE": addresses, "BGP_NEIGHBOR": bgp}))
        (scratch / "hosts.csv").write_text("\n".join(rows) + "\n")
        words = [scratch / f"leaf{leaf}.json" for leaf in range(LEAVES)]
        for spine in range(SPINES):
            words += ["--with", f"sonic={scratch}/spine{spine}.config.json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        made = run(folder, "import", "lldp", *words, "--with", f"csv={scratch}/hosts.csv", "-o", scratch / "made")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        checked = run(folder, "check", "--json", scratch / "made")
        answer = json.loads(checked.stdout) if checked.returncode == 0 else {}
        missing = [line for line in made.stderr.splitlines() if line.startswith("missing")]
        value = f"{answer.get('links')} links, {answer.get('tiers')} tiers, {len(missing)} missing facts"
        aim = f"{LEAVES * (SPINES + HOSTS)} links, 2 tiers, 0 missing facts"
        yield {"name": "imports, 64 x 32 switches and 2,048 hosts of 97 files", "value": value, "aim": aim,
               "ok": value == aim}
        yield {"name": "imports, the same, processor time", "value": f"{seconds:.2f} s",
               "aim": f"at most {SECONDS_AIM:.0f} s", "ok": seconds <= SECONDS_AIM}
        for line in (made.stderr if made.returncode else "").splitlines()[:20]:
            print(f"       {line}", file=sys.stderr)


def checks(folder, quick):
    yield from examples(folder)
    yield from damaged(folder, 20 if quick else 200)
    yield from large(folder)
