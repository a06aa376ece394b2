"""Documents that cannot rot: code in them runs, what they name exists."""

import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

import coembed
from coembed import bodies, files, formats, losses
from coembed.cli import commands

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_cli_page_equals_help():
    page = runpy.run_path(str(ROOT / "docs" / "build_cli.py"))["page"]
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == page(), "run: python docs/build_cli.py"


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_each_command_has_help_and_example(name):
    text = commands.commands[name].help
    assert text
    assert "Example: coembed" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_method_page_names_functions_that_exist():
    page = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    for module, name in re.findall(r"`(coembed\.\w+)\.(\w+)`", page):
        assert hasattr(import_module(module), name), f"{module}.{name}"


def test_method_page_names_every_loss_and_every_source():
    page = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    for name in losses.__all__:
        if name.endswith("_loss"):
            assert f"`coembed.losses.{name}`" in page
    for path in (ROOT / "src" / "coembed").glob("*.py"):
        for key in re.findall(r"\[([A-Z][a-z]+\d\d)\]", path.read_text(encoding="utf-8")):
            assert f"- [{key}]" in page, f"{path.name} cites {key}"


def test_readme_script_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    import numpy as np

    for seed, side in enumerate("ab"):
        rng = np.random.default_rng(seed)
        shape = bodies.sample(bodies.body(rng), 400, rng).shape
        formats.write(tmp_path / f"person-{side}.ply", shape)
    (tmp_path / "a-b.truth.txt").write_text("\n".join(map(str, range(400))) + "\n")
    script = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert script is not None
    exec(compile(script[1], "README.md", "exec"), {})
    assert (tmp_path / "a-b.png").stat().st_size > 1000
    assert len(files.read_matches(tmp_path / "a-b.txt", n_target=400).p2p) == 400


def test_public_names_are_sorted_and_documented():
    assert coembed.__all__ == sorted(coembed.__all__)
    for name in coembed.__all__:
        assert getattr(coembed, name).__doc__, name
