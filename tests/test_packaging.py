"""What is built from the checkout is whole: rooms, prompts and types in wheel and sdist alike, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from strict_python import OPTIONS

# Building asks the package index for the build backend.
pytestmark = [pytest.mark.slow, pytest.mark.external]

ROOT = Path(__file__).parents[1]
NAME = "langgraph_reflexion"
ROOMS = ("graph", "memory", "nodes", "prompts")
LEFT_OUT = shutil.ignore_patterns(".?*", "__pycache__", "*.egg-info", "build", "dist", "venv")


class Built(NamedTuple):
    sdist: Path
    wheel: Path
    wheel_of_sdist: Path
    python: Path


@pytest.fixture(scope="module")
def wheel_without_links(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy in which each link is a text file, as on Windows or from a zip."""
    work = tmp_path_factory.mktemp("no_links")
    checkout = shutil.copytree(ROOT, work / "checkout", symlinks=True, ignore=LEFT_OUT)
    for link in [path for path in (checkout / "src" / NAME).iterdir() if path.is_symlink()]:
        target = os.readlink(link)
        link.unlink()
        link.write_text(target, encoding="utf-8")
    run(built.python, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", work, checkout)
    return only(work, "*.whl")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A clean copy of the checkout, packed three ways."""
    work = tmp_path_factory.mktemp("packed")
    checkout = shutil.copytree(ROOT, work / "checkout", symlinks=True, ignore=LEFT_OUT)
    python = python_of(work / "workshop", with_pip=True)
    run(python, "-m", "pip", "install", "-q", "build")
    run(python, "-m", "build", "-q", "--sdist", "--outdir", work / "sdist", checkout)
    sdist = only(work / "sdist", "*.tar.gz")
    for source, folder in ((checkout, "wheel"), (sdist, "wheel_of_sdist")):
        run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", work / folder, source)
    return Built(sdist, only(work / "wheel", "*.whl"), only(work / "wheel_of_sdist", "*.whl"), python)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and this one's packages for what it depends on."""
    place = tmp_path_factory.mktemp("fresh") / "env"
    python = python_of(place, with_pip=False)
    run(built.python, "-m", "pip", "--python", python, "install", "-q", "--no-deps", built.wheel)
    # A path file inside a folder that a path file adds is not read: an editable install stays out.
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_paths()["purelib"], encoding="utf-8")
    return python


def python_of(place: Path, *, with_pip: bool) -> Path:
    venv.create(place, with_pip=with_pip, symlinks=os.name != "nt")
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(python: Path, *arguments: str | Path) -> str:
    """What the command printed; it runs away from the checkout, and a failure shows all it said."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [python, *arguments], cwd=python.parent, env=kept, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def contents(wheel: Path) -> dict[str, bytes]:
    """The package's files in a wheel, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_package_and_nothing_else(built):
    face = ROOT / "src"
    files = {
        Path(place, name).relative_to(face).as_posix()
        for place, _, names in os.walk(face / NAME, followlinks=True)
        for name in names
        if not place.endswith("__pycache__")
    }
    assert set(contents(built.wheel)) == files
    assert f"{NAME}/py.typed" in files
    assert any(name.startswith(f"{NAME}/prompts/") and name.endswith(".md") for name in files)


def test_the_sdist_builds_the_same_wheel(built):
    assert contents(built.wheel_of_sdist) == contents(built.wheel)


def test_a_checkout_without_links_builds_the_same_wheel(built, wheel_without_links):
    assert contents(wheel_without_links) == contents(built.wheel)


def test_the_sdist_holds_real_files_where_the_checkout_has_links(built):
    with tarfile.open(built.sdist) as archive:
        members = archive.getmembers()
    assert not [one.name for one in members if one.issym() or one.islnk()]
    assert not [one.name for one in members if "tests" in Path(one.name).parts]


def test_the_licence_and_its_name_travel_with_the_wheel(built):
    with zipfile.ZipFile(built.wheel) as archive:
        texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}
    assert texts["LICENSE"].startswith("MIT License")
    assert "License-Expression: MIT" in texts["METADATA"].splitlines()


def test_the_package_index_can_show_the_built_package(built):
    run(Path(sys.executable), "-m", "twine", "check", "--strict", built.sdist, built.wheel)


def test_an_installed_wheel_is_imported_away_from_the_checkout(installed):
    rooms = ", ".join(f"{NAME}.{room}" for room in ROOMS)
    where = run(installed, *OPTIONS, "-c", f"import {NAME}, {NAME}.testing, {rooms}; print({NAME}.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parents[1])


def test_an_installed_wheel_brings_the_command_line(installed):
    assert "demo" in run(installed, installed.parent / "langgraph-reflexion", "--help")
