"""The files for a server on PostgreSQL fit what LangGraph's own command line reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.req("O3")
def test_the_page_on_scale_separates_measured_figures_from_estimates() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    measured, reckoned = page.split("## Measured")[1].split("## One database or many")
    assert "| 100,000 |" in measured
    assert "This is an estimate, not a measurement" in reckoned
    assert "| 10,000 |" in reckoned


@pytest.mark.external
def test_the_server_file_is_one_that_langgraph_accepts() -> None:
    config = pytest.importorskip("langgraph_cli.config")
    assert set(config.validate_config_file(ROOT / "langgraph.json")["graphs"]) == {"demo", "agent"}


@pytest.mark.external
def test_the_compose_file_is_the_one_that_langgraph_up_makes() -> None:
    docker = pytest.importorskip("langgraph_cli.docker")
    yaml = pytest.importorskip("yaml")
    ours = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    makes = docker.DockerCapabilities(docker.Version(26, 0, 0), docker.Version(2, 0, 0), True)
    theirs = yaml.safe_load(docker.compose(makes, port=8123, image="my-agent"))
    assert ours["volumes"] == theirs["volumes"]
    assert ours["services"].keys() == theirs["services"].keys()
    for name, service in theirs["services"].items():
        for part in ("image", "environment", "command", "volumes", "depends_on"):
            assert ours["services"][name].get(part) == service.get(part), (name, part)
