"""What ranks of a group are told when something is wrong, from the C library: a rank that is late is named by all
others, over TCP too; a join ends within one limit; ranks without an address take that of the route to the store (in a
lab of two hosts); a second thread is refused. And a job of many ranks: what each of them gets of the program, and the
time from the operator's command until all agents have put the plan in force (simulated agents, one thread).
"""

import ctypes
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

TARGETS = ["espalier", "espalier_collective_client", "forest_failover_bench"]

RANKS = 6
LATE = 4
LIMIT_MS = 3000
MOST_OVER_LIMIT = 1.5
JOBS = {True: "8/8/16", False: "8/16/16"}  # by --quick: spines, leaves, hosts of a leaf
MOST_PART_BYTES = 64 << 10
MOST_SECONDS = {True: 30, False: 120}
TCP, FLOAT, SUM = 1, 0, 0


def check(name, value, aim, ok):
    return {"name": name, "value": value, "aim": aim, "ok": bool(ok)}


class Options(ctypes.Structure):
    _fields_ = [("medium", ctypes.c_uint32), ("timeout_ms", ctypes.c_uint32), ("address", ctypes.c_char_p),
                ("connections", ctypes.c_uint32), ("plan_port", ctypes.c_uint32), ("offload", ctypes.c_char_p),
                ("costs", ctypes.c_char_p), ("agent", ctypes.c_char_p), ("host", ctypes.c_char_p)]


class Group:
    def __init__(self, library, store, rank, ranks):
        self.library = ctypes.CDLL(library)
        self.library.espalier_comm_error.restype = ctypes.c_char_p
        self.library.espalier_comm_error.argtypes = [ctypes.c_void_p]
        self.handle = ctypes.c_void_p()
        words = ctypes.create_string_buffer(1024)
        options = Options(medium=TCP, timeout_ms=LIMIT_MS)
        self.code = self.library.espalier_comm_create(store.encode(), b"group", rank, ranks, ctypes.byref(options),
                                                      ctypes.byref(self.handle), words, ctypes.c_size_t(1024))
        self.why = words.value.decode(errors="replace")

    def sum(self, data):
        return self.library.espalier_allreduce(self.handle, data, data, ctypes.c_size_t(len(data)), FLOAT, SUM)

    def error(self):
        return self.library.espalier_comm_error(self.handle).decode(errors="replace")


def rank_main(library, store, rank, ranks, what):
    """What one rank does; prints {"code", "text", "seconds"}."""
    start = time.monotonic()
    group = Group(library, store, rank, ranks)
    code, text = group.code, group.why
    data = (ctypes.c_float * 1000)(*[1.0] * 1000)
    if code == 0:
        code = group.sum(data)
        text = group.error() or f"sum {data[0]:.0f}"
    if code == 0 and what == "late":
        if rank == LATE:
            time.sleep(2 * LIMIT_MS / 1000)
        else:
            code = group.sum(data)
            text = group.error()
    if code == 0 and what == "threads":
        code, text = second_thread(group, rank, data)
    print(json.dumps({"code": code, "text": text, "seconds": round(time.monotonic() - start, 2)}))


def second_thread(group, rank, data):
    """Rank 1 waits until rank 0's second thread was refused."""
    if rank == 1:
        time.sleep(1)
        return group.sum(data), f"sum {data[0]:.0f}"
    codes = []
    first = threading.Thread(target=lambda: codes.append(group.sum(data)))
    first.start()
    time.sleep(0.3)
    other = (ctypes.c_float * 1000)(*[7.0] * 1000)
    refused, words = group.sum(other), group.error()
    first.join()
    right = codes == [0] and set(other) == {7.0} and "another thread" in words
    return refused, f"sum {data[0]:.0f}" if right else f"{codes} {words}"


def run(library, store, ranks, what, own_ranks=None, before=lambda rank: []):
    """The results of the ranks, in separate processes."""
    started = [subprocess.Popen([*before(rank), sys.executable, str(pathlib.Path(__file__).resolve()), str(library), store,
                                 str(rank), str(ranks), what], stdout=subprocess.PIPE, text=True, env=environment())
               for rank in (own_ranks or range(ranks))]
    return [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in started]


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("ESPALIER_")} | {
        "ESPALIER_INSECURE_GROUPS": "1"}  # the lab's hosts are all of this machine


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def groups(library):
    with tempfile.TemporaryDirectory() as folder:
        found = run(library, folder, RANKS, "late")
    named = sum(f"rank {LATE}" in row["text"] and row["code"] < 0 for i, row in enumerate(found) if i != LATE)
    yield check(f"a late rank over TCP: how many of the {RANKS - 1} others name it", named, RANKS - 1, named == RANKS - 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        found = run(library, f"tcp://127.0.0.1:{silent.getsockname()[1]}", 2, "join", own_ranks=[1])[0]
    over = found["seconds"] / (LIMIT_MS / 1000)
    yield check("a join at a store's port that another program has: time, over its limit", round(over, 2),
                f"an error, at most {MOST_OVER_LIMIT}", found["code"] < 0 and over <= MOST_OVER_LIMIT)
    with tempfile.TemporaryDirectory() as folder:
        found = run(library, folder, 2, "threads")
    words = [f"{row['code']} {row['text']}" for row in found]
    yield check("a second thread in a call: its code, and the first one's sum", words, "-16 and sums of 4",
                words == ["-16 sum 4", "0 sum 4"])


def routes(espalier, library):
    name = f"groups{os.getpid()}"
    subprocess.run([str(espalier), "lab", "up", "--name", name, "--spines", "1", "--leaves", "2", "--hosts-per-leaf", "1"],
                   check=True, capture_output=True)
    try:
        found = run(library, f"tcp://10.0.0.1:{free_port()}", 2, "join",
                    before=lambda rank: [str(espalier), "lab", "exec", "--name", name, f"h{rank}", "--"])
    finally:
        subprocess.run([str(espalier), "lab", "down", "--name", name], capture_output=True)
    words = [row["text"] for row in found]
    yield check("two hosts of a lab whose ranks give no address", words, "sums of 2", words == ["sum 2"] * 2)


def jobs(folder, quick):
    shape = JOBS[quick]
    done = subprocess.run([str(folder / "forest_failover_bench"), f"--benchmark_filter=BM_AJobStarts/{shape}/",
                           "--benchmark_format=json"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    rows = json.loads(done.stdout)["benchmarks"] if done.returncode == 0 else []
    if not rows:
        yield check(f"a job of {shape} ranks", (done.stdout + done.stderr)[-300:], "in force", False)
        return
    row = rows[0]
    _, leaves, hosts = map(int, shape.split("/"))
    ranks = leaves * hosts
    print(f"job of {ranks} ranks: {row['real_time']:.1f} s, {row['part_bytes']:.0f} bytes for a rank of "
          f"{row['whole_bytes']:.0f}, at most {row['peak_MB']:.0f} MB", file=sys.stderr)
    yield check(f"a job of {ranks} ranks: the most bytes of the program for a rank", int(row["part_bytes"]),
                f"at most {MOST_PART_BYTES}", row["part_bytes"] <= MOST_PART_BYTES)
    yield check(f"a job of {ranks} ranks: seconds until all agents have the plan", round(row["real_time"], 1),
                f"at most {MOST_SECONDS[quick]}", row["real_time"] <= MOST_SECONDS[quick])


def checks(folder, quick):
    library = next(path for path in (folder.parent / "lib/libespalier-collective.so",
                                     folder / "libespalier-collective.so") if path.exists())
    yield from groups(library)
    yield from routes(folder / "espalier", library)
    yield from jobs(folder, quick)


if __name__ == "__main__":
    rank_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
