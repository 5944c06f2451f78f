"""Runs a Ray cluster of two nodes with one CPU each, on this machine: `python ray_cluster.py`.

Prints its address. "remove" on stdin kills the second node, "add" starts another one. The cluster ends with stdin.
"""

import os
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster

SIZE = {"num_cpus": 1, "object_store_memory": 100 << 20}


def main() -> None:
    """Start the nodes, and obey."""
    cluster = Cluster(initialize_head=True, head_node_args={**SIZE, "include_dashboard": False})
    node = cluster.add_node(**SIZE)
    print(cluster.address, flush=True)
    for order in sys.stdin:
        if order == "remove\n":
            cluster.remove_node(node, allow_graceful=False)
        else:
            node = cluster.add_node(**SIZE)
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
