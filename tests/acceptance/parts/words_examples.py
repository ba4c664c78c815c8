"""Texts that once had to be decoded, and what stands in their place now."""

import pathlib
import re
import subprocess

# (former text, file, a part of the present text)
EXAMPLES = [
    ("Bytes in flight decide among what is as good", "controller/placement/balance/reassigner.cc",
     "find a better assignment of all flows, but move few bytes in flight"),
    ("Of every link at a leaf of a 2-layer Clos that bears nothing or one whole flow: which, and the leaf",
     "controller/routing/occupancy/single_flow_links.h",
     "A compact table of the leaf links of a 2-tier Clos that carry at most one whole flow."),
    ("One host's silence is no death", "controller/link_tests/dead_verdict.h",
     "A congested link still delivers, a dead one delivers nothing."),
    ("The controller's answer before the question", "controller/planning/start_predictor.h",
     "Predicts which flows each job will start next and precomputes their path assignments"),
    ("What has been done, and what is still to be found out of it", "controller/operations/action.h",
     "An action that has been applied. Its outcome is computed after the agents have acknowledged their pushes"),
    ("by a word that may be old", "controller/links/link_monitor.h",
     "A feed reported to an earlier controller that the link is down."),
    ("A drawn port leads anywhere", "controller/placement/failures/local_reroutes.h",
     "An agent that leaves a dead path on its own picks a port at random, so the flow may land on a loaded path."),
    ("It takes us for a controller that knows it", "controller/agents/agent_sessions.cc",
     "The agent still believes it is registered: we restarted, or its session timed out."),
    ("Who looks at a line too early takes it away", "collective/transport/shm/shared_group.h",
     "Polling a line too early steals it from the peer that is about to write it, and costs two more transfers."),
    ("How many bytes in flight these live flows may have in all", "controller/daemon/config.proto",
     "How many bytes in flight the flows that one start moves may have in all. 0 moves only flows that have none."),
    ("Whom to believe over https", "deploy/cli/operator/operator_session.cc",
     "CA bundle (PEM) that verifies the server's certificate over https"),
    ("How fast a job is to be beside others", "deploy/cli/operator/operator_commands.cc",
     "Set a job's bandwidth weight relative to other jobs"),
    ("Memory of these", "controller/forests/backup_forests.cc", "Memory used by backup forests, in bytes"),
    ("Path pushes whose predecessor never came", "agent/agent_metrics.cc",
     "Path pushes rejected because an earlier generation"),
    ("nothing was said of {}", "controller/operations/intent_edits.cc", "no weight or policy is set for {}"),
    ("a job takes no time to end at", "controller/operations/intent_edits.cc", "does not take an end time"),
    ("a timeout of nothing", "collective/runtime/group/communicator.cc", "timeout must be positive"),
    ("is nothing to choose over {}", "collective/runtime/group/communicator.cc", "is not available over {}"),
    ("Whose turn it is to lend among the connections", "collective/transport/tcp/tcp_sender.h",
     "when ranks share cores, only one connection at a time may send from user memory."),
]


def flowing(text):
    """The text without marks of comments, ends of lines and joints of strings."""
    text = re.sub(r"^\s*(//|#)", " ", text, flags=re.M)
    return re.sub(r"\s+", " ", re.sub(r'"\s*\n?\s*"', "", text))


def checks(root: pathlib.Path):
    """One row for each example: the former text is nowhere, the present one stands where it says."""
    names = subprocess.run(["git", "ls-files", "-z", ":!tests/acceptance", ":!*.svg"], cwd=root, capture_output=True,
                           text=True, check=True).stdout.split("\0")
    texts = {name: flowing((root / name).read_text(errors="replace")) for name in names if (root / name).is_file()}
    for former, place, present in EXAMPLES:
        found = [name for name, text in texts.items() if former in text]
        value = f"in {found[0]}" if found else "gone" if present in texts.get(place, "") else "the new text is missing"
        yield {"name": f"\"{former}\" became \"{present}\" ({place})", "value": value, "aim": "gone",
               "ok": value == "gone"}
