#!/usr/bin/env python3
"""Check the Helm chart: default and bad values against its schema; its manifests, rendered by render.go,
against Kubernetes' own types with kubectl; and the manifests of deploy/kubernetes against the rendered ones.

usage: check_chart.py [--write]     (--write: generate deploy/kubernetes/espalier.yaml)

Exit code 77 (ctest: skipped) if a tool is missing, with the name of its package.
"""
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "espalier"
PLAIN = ROOT / "deploy" / "kubernetes" / "espalier.yaml"
GO_PATH = pathlib.Path("/usr/share/gocode")
HEADER = "# Made from deploy/helm/espalier by tests/deploy/chart/check_chart.py --write: edit that.\n"
EXAMPLE_TOPOLOGY = '{"name": "put your fabric here", "version": 1, "nodes": [], "links": []}'


def skip(what):
    print(f"skipped: {what}")
    sys.exit(SKIPPED)


try:
    import jsonschema
    import yaml
except ImportError as error:
    skip(f"{error.name} is missing (apt-get install python3-jsonschema python3-yaml)")
for tool, package in (("go", "golang-go"), ("kubectl", "kubernetes-client")):
    if shutil.which(tool) is None:
        skip(f"{tool} is missing (apt-get install {package})")
if not (GO_PATH / "src/github.com/Masterminds/sprig").is_dir():
    skip("sprig is missing (apt-get install golang-github-masterminds-sprig-dev)")
if not (GO_PATH / "src/sigs.k8s.io/yaml").is_dir():
    skip("yaml is missing (apt-get install golang-k8s-sigs-yaml-dev)")


def build_renderer(folder):
    renderer = folder / "render"
    environment = dict(os.environ, GOPATH=str(GO_PATH), GO111MODULE="off", GOFLAGS="",
                       GOCACHE=str(folder / "cache"))
    subprocess.run(["go", "build", "-o", renderer, pathlib.Path(__file__).with_name("render.go")],
                   check=True, env=environment)
    return renderer


def render(renderer, values):
    return subprocess.run([renderer, CHART, "espalier", "espalier"], input=json.dumps(values),
                          check=True, capture_output=True, text=True).stdout


def check_schema(values):
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    for path, bad in ((("controller", "image"), ""), (("controller", "replicas"), 2),
                      (("controller", "storage", "size"), "lots"), (("agent", "tolerations"), {}),
                      (("keys", "agentFolder"), "keys"), (("agent", "resources", "limit"), {}),
                      (("networkPolicy", "hostNetworks"), ["everywhere"]),
                      (("engine", "enabled"), "yes")):
        broken = copy.deepcopy(values)
        inner = broken
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = bad
        try:
            jsonschema.validate(broken, schema)
        except jsonschema.ValidationError:
            continue
        sys.exit(f"the schema takes {'.'.join(path)} = {bad!r}")


def lost(given, taken, where):
    """The parts of `given` that are not in `taken`, and so unknown to Kubernetes' types."""
    if isinstance(given, dict):
        if not isinstance(taken, dict):
            return [where]
        return [path for key, value in given.items()
                for path in (lost(value, taken[key], f"{where}.{key}") if key in taken
                             else [f"{where}.{key}"])]
    if isinstance(given, list):
        if not isinstance(taken, list) or len(given) != len(taken):
            return [where]
        return [path for i, value in enumerate(given)
                for path in lost(value, taken[i], f"{where}[{i}]")]
    return [] if str(given) == str(taken) else [where]


# A local kubectl command decodes into the API's types and prints what it recognised.
LOCAL_ORDERS = {"Deployment": ["set", "env", "A=B"], "DaemonSet": ["set", "env", "A=B"],
                "Service": ["set", "selector", "a=b"]}
API_VERSIONS = {"Deployment": "apps/v1", "DaemonSet": "apps/v1", "Service": "v1",
                "ConfigMap": "v1", "PersistentVolumeClaim": "v1",
                "NetworkPolicy": "networking.k8s.io/v1"}
CAPABILITIES = {"controller": [], "keys": [], "agent": ["NET_RAW"], "engine": ["SETGID", "SETUID"]}


def check_manifest(manifest, folder):
    kind = manifest["kind"]
    name = f"{kind} {manifest['metadata']['name']}"
    if manifest["apiVersion"] != API_VERSIONS[kind]:
        sys.exit(f"{name}: apiVersion {manifest['apiVersion']}")
    if kind not in LOCAL_ORDERS:
        return
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest))
    order = LOCAL_ORDERS[kind]
    result = subprocess.run(["kubectl", *order[:2], "--local", "-f", path, *order[2:], "-o", "json"],
                            capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{name}: {result.stderr}")
    taken = json.loads(result.stdout)
    if kind == "Service":
        del manifest["spec"]["selector"]  # the order has changed it
    unknown = lost(manifest, taken, name)
    if unknown:
        sys.exit("Kubernetes does not know: " + ", ".join(unknown))


def pods(manifests):
    return [manifest["spec"]["template"]["spec"] for manifest in manifests
            if manifest["kind"] in ("Deployment", "DaemonSet")]


def check_rights(manifests):
    """Check the privileges of containers, and which peers can reach them."""
    for pod in pods(manifests):
        assert pod["priorityClassName"].startswith("system-"), pod["priorityClassName"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"] + pod.get("initContainers", []):
            rights = container["securityContext"]
            assert rights["allowPrivilegeEscalation"] is False, container["name"]
            assert rights["readOnlyRootFilesystem"] is True, container["name"]
            assert not rights.get("privileged"), container["name"]
            assert rights["capabilities"]["drop"] == ["ALL"], container["name"]
            assert rights["capabilities"].get("add", []) == CAPABILITIES[container["name"]]
            # An agent has only its own keys, and agents' keys are never on a persistent volume.
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            if container["name"] in ("controller", "keys"):
                folder = mounts["/var/lib/espalier/keys/agents"]["name"]
                assert volumes[folder]["emptyDir"]["medium"] == "Memory", folder
            if container["name"] == "engine":
                assert not any("keys" in path for path in mounts), "the engine sees keys"
    policy = next(m for m in manifests if m["kind"] == "NetworkPolicy")["spec"]
    controller = next(m for m in manifests if m["kind"] == "Deployment")
    labels = controller["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"} and "egress" not in policy
    assert [rule["ports"] for rule in policy["ingress"]] == [[{"protocol": "TCP", "port": 7400}]]


def check_variants(renderer, values):
    """Check that a disabled offload service has no container, and that networks limit connections."""
    variant = copy.deepcopy(values)
    variant["engine"]["enabled"] = False
    variant["networkPolicy"]["hostNetworks"] = ["10.0.0.0/8", "fd00::/8"]
    variant["agent"]["priorityClassName"] = ""
    manifests = [m for m in yaml.safe_load_all(render(renderer, variant)) if m]
    agents = next(m for m in manifests if m["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    assert [container["name"] for container in agents["containers"]] == ["agent"]
    assert "priorityClassName" not in agents
    policy = next(m for m in manifests if m["kind"] == "NetworkPolicy")["spec"]
    assert policy["ingress"][0]["from"] == [{"ipBlock": {"cidr": "10.0.0.0/8"}},
                                            {"ipBlock": {"cidr": "fd00::/8"}}]
    variant["networkPolicy"]["enabled"] = False
    assert "NetworkPolicy" not in render(renderer, variant)


def main():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    check_schema(values)
    values["topology"] = EXAMPLE_TOPOLOGY
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        renderer = build_renderer(folder)
        text = HEADER + render(renderer, values)
        manifests = [manifest for manifest in yaml.safe_load_all(text) if manifest]
        if sorted(manifest["kind"] for manifest in manifests) != [
                "ConfigMap", "ConfigMap", "DaemonSet", "Deployment", "NetworkPolicy",
                "PersistentVolumeClaim", "Service"]:
            sys.exit("other manifests than expected")
        check_rights(manifests)
        check_variants(renderer, values)
        for manifest in copy.deepcopy(manifests):
            check_manifest(manifest, folder)
        broken = copy.deepcopy(next(m for m in manifests if m["kind"] == "Deployment"))
        broken["spec"]["template"]["spec"]["containers"][0]["imagePullPolicies"] = "Always"
        try:
            check_manifest(broken, folder)
        except SystemExit as refusal:
            assert "imagePullPolicies" in str(refusal), refusal
        else:
            sys.exit("a misspelt field was not found")
    if "--write" in sys.argv[1:]:
        PLAIN.parent.mkdir(exist_ok=True)
        PLAIN.write_text(text)
    elif PLAIN.read_text() != text:
        sys.exit(f"{PLAIN.relative_to(ROOT)} is not what the chart makes: run check_chart.py --write")
    print(f"{len(manifests)} manifests are sound")


main()
