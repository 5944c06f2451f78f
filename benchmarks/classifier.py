"""Trains the word classifier of faults on labelled logs: `python benchmarks/classifier.py FOLDER [FOLDER ...]`.

Folders are those of `benchmarks/naming.py`. Writes `src/oomph/explain/matching/classifier.txt`, which holds only words
and numbers from the logs. With `--measure` it writes nothing, but shows for each folder what its words alone name when
trained on the others. Needs scikit-learn (`pip install scikit-learn`).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from naming import SOUND as SOUND_LABELS
from naming import labelled
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import words
from oomph.explain.matching import classifier
from oomph.explain.matching.classifier import Classifier
from oomph.explain.matching.fallback import GENERAL
from oomph.explain.reading.file import read_file

INVERSE_REGULARISATION = 100.0
FEWEST_LOGS = 3  # a word in fewer logs is a name, or says nothing
FAINTEST = 0.7  # weights closer to zero are dropped: 9 of 10, without any effect on the figures


class Log(NamedTuple):
    """A labelled log."""

    words: Sequence[str]
    label: str
    accepted: Sequence[str]


class Learned(NamedTuple):
    """What was learned: rows are faults, columns words."""

    names: Sequence[str]
    vocabulary: Sequence[str]
    rarity: Any
    weights: Any
    always: Any


def logs_of(folder: Path) -> list[Log]:
    """The logs of a folder, as `oomph explain` reads them."""
    found = []
    for path, entry in labelled(folder):
        sample = classifier.EvidenceSample()
        for fact in read_file(path, words()):
            sample.see(fact)
        spoken = classifier.words(fact.text for fact in sample.facts)
        found.append(Log(spoken, entry["label"], (entry["label"], *entry.get("also_ok", ()))))
    return found


def learn(logs: Sequence[Log]) -> Learned:
    """The weights of the words that stand in enough logs."""
    counter = TfidfVectorizer(analyzer=lambda log: log.words, min_df=FEWEST_LOGS)
    features = counter.fit_transform(logs)
    model = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000).fit(features, [log.label for log in logs])
    weights = np.where(np.abs(model.coef_) < FAINTEST, 0.0, model.coef_)
    return Learned(model.classes_.tolist(), counter.get_feature_names_out(), counter.idf_, weights, model.intercept_)


def table(learned: Learned) -> str:
    """The text of classifier.txt."""
    codes = _codes(learned.names)
    lines = [_line(classifier.ALWAYS, 0.0, learned.always, codes)]
    columns = zip(learned.vocabulary, learned.rarity, learned.weights.T, strict=True)
    lines += sorted(_line(word, rarity, column, codes) for word, rarity, column in columns)
    return "\n".join(lines) + "\n"


def _codes(names: Sequence[str]) -> list[str]:
    known: Mapping[str, str] = {fault.name: fault.code for fault in load()} | {"none": classifier.SOUND}
    return [known[name] for name in names]


def _line(word: str, rarity: float, weights: Any, codes: Sequence[str]) -> str:
    pairs = (f"{code}={round(100 * weight)}" for code, weight in zip(codes, weights, strict=True) if weight)
    return " ".join((word, str(round(100 * rarity)), *pairs))


def measure(folders: Mapping[Path, list[Log]]) -> None:
    """Print what the words alone name of each folder, learned from all the others."""
    whole = Counter[str]()
    for folder, logs in folders.items():
        others = [log for other in folders if other != folder for log in folders[other]]
        counted = _score(logs, Classifier(table(learn(others)), load()))
        whole += counted
        print(f"{folder.name:<14}", _told(counted), flush=True)
    print(f"{'all':<14}", _told(whole))


def _score(logs: Sequence[Log], learned: Classifier) -> Counter[str]:
    counted = Counter[str]()
    for log in logs:
        if log.label not in SOUND_LABELS:
            named = [page.name for page in learned.shares(log.words).faults if page.name not in GENERAL][:3]
            counted += Counter(faults=1, first=named[0] in log.accepted, three=not set(named).isdisjoint(log.accepted))
    return counted


def _told(counted: Counter[str]) -> str:
    return f"{counted['faults']} faults, {counted['first']} first, {counted['three']} within three"


def main() -> None:
    """Learn, and write what was learned or what it is worth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--measure", action="store_true", help="leave each folder out once, and write nothing")
    given = parser.parse_args()
    folders = {folder: logs_of(folder) for folder in given.folders}
    if given.measure:
        measure(folders)
    else:
        everything = [log for logs in folders.values() for log in logs]
        classifier.TABLE.write_text(table(learn(everything)), encoding="ascii")
        print(f"{classifier.TABLE}: {classifier.TABLE.stat().st_size} bytes, from {len(everything)} logs")


if __name__ == "__main__":
    main()
