"""Topologies for tests of the page that simulated_hosts cannot make."""

import json


def rails_in_pods(pods=2, rails=4, boxes=4, aggregations=2, cores=2):
    """Three tiers: in each pod a leaf for every rail of its boxes, and aggregation switches, which
    all cores join."""
    nodes, links = [], []
    for core in range(cores):
        nodes.append({"id": f"core{core}", "kind": "SWITCH", "role": "CORE"})
    for pod in range(pods):
        # The leaves come in no order, as in a file that a person wrote.
        for rail in reversed(range(rails)):
            nodes.append({"id": f"p{pod}-leaf{rail}", "kind": "SWITCH", "role": "LEAF"})
        for number in range(aggregations):
            name = f"p{pod}-agg{number}"
            nodes.append({"id": name, "kind": "SWITCH", "role": "SPINE"})
            links += [{"a": f"p{pod}-leaf{rail}", "b": name, "gbps": 400} for rail in range(rails)]
            links += [{"a": name, "b": f"core{core}", "gbps": 400} for core in range(cores)]
        for box in range(boxes):
            for rail in range(rails):
                name = f"p{pod}-box{box}-nic{rail}"
                nodes.append({"id": name, "kind": "NIC", "host": f"p{pod}-box{box}",
                              "addresses": [f"10.{pod}.{box}.{rail + 1}"]})
                links.append({"a": name, "b": f"p{pod}-leaf{rail}", "gbps": 400})
    return json.dumps({"name": "rails-in-pods", "nodes": nodes, "links": links})
