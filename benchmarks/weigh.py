"""Learn how many points a sign of a text has: `python benchmarks/weigh.py` writes `memory/trust/points.txt`.

Plain logistic regression over all of our corpus that the guard may be made with; what is held out is left out. Our
honest lessons are of one hand, so what Python's documentation advises stands beside them: the docstrings of the
standard library that runs this (3.11 made the file). No chance is in it. `--across` leaves each set out in turn and
tells what the others' points find of it, which is what to expect of words not met yet.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from langgraph_reflexion.memory.trust.decoding import plain
from langgraph_reflexion.memory.trust.weighing import signs, told_of

ROOT = Path(__file__).parent.parent
DATA = ROOT / "benchmarks" / "data"
CORPUS = ROOT / "tests" / "memory" / "redteam"
OUT = ROOT / "memory" / "trust" / "points.txt"

ROUNDS = 120
STEP = 0.05
LOOSE = 10.0
"""How far weights may go from nought."""
SCALE = 10
"""Points of a weight of one."""
FEW = 2
"""Fewer points than these are left out."""
RARE = 3
"""A sign in fewer texts is left out."""

WEIGHED = {"sort", "text", "when"}

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
NO_DOCUMENTATION = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
SENTENCE = re.compile(r"[A-Z][^{}<>`=\\|*]{38,218}[.!]")
ADVISES = re.compile(
    r"\b(?:should|must|make sure|always|never|avoid|instead|use|do not|ensure|remember|before|prefer|only)\b",
    re.IGNORECASE,
)

Sample = tuple[list[str], bool]


def sets() -> dict[str, list[Sample]]:
    """The signs of each text, and whether it is an attack, by the set it belongs to."""
    found: dict[str, list[Sample]] = {}
    for part in ("tuned", "held_out", "more", "blind", "formal"):
        for name in ("attacks", "honest"):
            # Where the attack stands in a tag or a topic, the text beside it is honest.
            rows = [row for row in _rows(CORPUS / f"{name}_{part}.jsonl") if set(row) <= WEIGHED]
            found.setdefault(part, []).extend((_signs(row), name == "attacks") for row in rows)
    for row in _rows(DATA / "heldout.jsonl"):
        if (row["set"], row["half"]) != ("second", "test"):
            found.setdefault(row["set"], []).append((_signs(row), row["label"] == "attack"))
    for name in ("lessons", "fresh_lessons", "messy_lessons", "reflections"):
        found.setdefault("lessons", []).extend((_signs(row), False) for row in _rows(DATA / f"{name}.jsonl"))
    found["library"] = [(signs(plain(text)), False) for text in dict.fromkeys(advice(LIBRARY))]
    return found


def advice(folder: Path) -> Iterator[str]:
    """The sentences of the docstrings below a folder that advise, each on one line."""
    for file in sorted(folder.rglob("*.py")):
        if NO_DOCUMENTATION & set(file.relative_to(folder).parts):
            continue
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                for part in re.split(r"(?<=[.!])\s+(?=[A-Z])|\n\s*\n", ast.get_docstring(node) or ""):
                    text = " ".join(part.split())
                    if SENTENCE.fullmatch(text) and ADVISES.search(text):
                        yield text


def learned() -> str:
    """The file that all sets together give."""
    return written(fitted([sample for mine in sets().values() for sample in mine]))


def fitted(samples: Sequence[Sample]) -> dict[str, int]:
    """The points by sign; `=` is what a text starts with."""
    counts = Counter(sign for one, _ in samples for sign in one)
    samples = [([sign for sign in one if counts[sign] >= RARE], is_attack) for one, is_attack in samples]
    index = {sign: i for i, sign in enumerate(dict.fromkeys(sign for one, _ in samples for sign in one))}
    signs_at = np.array([index[sign] for one, _ in samples for sign in one])
    rows = np.repeat(np.arange(len(samples)), [len(one) for one, _ in samples])
    size = 1 / np.sqrt([len(one) + 1 for one, _ in samples])
    attack = np.array([float(is_attack) for _, is_attack in samples])
    share = np.where(attack > 0, 0.5 / attack.mean(), 0.5 / (1 - attack.mean()))
    weights, mean, spread = (np.zeros(len(index) + 1) for _ in range(3))
    for turn in range(1, ROUNDS + 1):
        score = np.bincount(rows, size[rows] * weights[signs_at], len(samples)) + weights[-1]
        miss = (1 / (1 + np.exp(-score)) - attack) * share
        slope = np.append(np.bincount(signs_at, size[rows] * miss[rows], len(index)) + weights[:-1] / LOOSE, miss.sum())
        mean, spread = 0.9 * mean + 0.1 * slope, 0.999 * spread + 0.001 * slope**2
        weights -= STEP * (mean / (1 - 0.9**turn)) / (np.sqrt(spread / (1 - 0.999**turn)) + 1e-8)
    points = {sign: round(SCALE * float(weights[i])) for sign, i in index.items()}
    return {"=": round(SCALE * float(weights[-1])), **{sign: one for sign, one in points.items() if abs(one) >= FEW}}


def written(points: dict[str, int]) -> str:
    """The file: a line for each number of points, with its signs."""
    by_points: dict[int, list[str]] = {}
    for sign, one in points.items():
        by_points.setdefault(one, []).append(sign)
    return "".join(f"{one} {' '.join(sorted(by_points[one]))}\n" for one in sorted(by_points, reverse=True))


def tell_across(samples: dict[str, list[Sample]]) -> None:
    """What points made with the other sets find of each."""
    scores = {
        name: [(told_of(one, points), is_attack) for one, is_attack in mine]
        for name, mine in samples.items()
        for points in [fitted([sample for other, theirs in samples.items() if other != name for sample in theirs])]
    }
    honest = sorted(score for mine in scores.values() for score, is_attack in mine if not is_attack)
    for share in (0.005, 0.01, 0.02, 0.05):
        bar = honest[int(len(honest) * (1 - share))]
        print(f"{share:.1%} of honest texts weigh more than {bar:.1f}; of the attacks do:")
        for name, mine in scores.items():
            attacks = [score > bar for score, is_attack in mine if is_attack]
            lessons = [score > bar for score, is_attack in mine if not is_attack]
            if attacks:
                print(f"  {name:<10} {sum(attacks):3}/{len(attacks):<4} honest {sum(lessons):3}/{len(lessons)}")


def _signs(row: dict[str, str]) -> list[str]:
    return signs(plain(": ".join(filter(None, (row.get("when"), row["text"])))))


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn how many points a sign of a text has.")
    parser.add_argument("--across", action="store_true", help="leave each set out in turn, and write nothing")
    if parser.parse_args().across:
        tell_across(sets())
    else:
        OUT.write_text(learned(), encoding="utf-8")


if __name__ == "__main__":
    main()
