"""The dashboard by Grafana's own types: each field of it is one that they know, with a value that they take.

Leaves out its queries (`tests/offline/report/agent_dashboard.rs`) and Grafana itself.
"""
import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(mine, theirs, place):
    """What the types do not keep as it is."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return [found for key, value in mine.items() for found in lost(value, theirs.get(key), f"{place}.{key}")]
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        return [found for number, pair in enumerate(zip(mine, theirs)) for found in lost(*pair, f"{place}[{number}]")]
    return [] if mine == theirs else [f"{place}: {mine!r} is {theirs!r}"]


def check(path):
    register_default_plugins()
    mine = json.loads(path.read_text())
    # For readers of the file.
    del mine["__comment"]
    dashboard = Dashboard.from_json(mine)
    found = lost(mine, json.loads(JSONEncoder().encode(dashboard)), "dashboard")
    assert not found and dashboard.panels, found
    print(f"dashboard: {len(dashboard.panels)} panels, as Grafana's types have them", flush=True)
