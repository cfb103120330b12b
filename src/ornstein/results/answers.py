"""The four questions that a person asks of a fit, in this order, and their answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ornstein._base.checks import aligned
from ornstein.results import mixing
from ornstein.results.accuracy import Accuracy
from ornstein.results.diagnosis import MODEL, STATIONARITY, Diagnosis, Point
from ornstein.results.mixed import MixedResult
from ornstein.results.remedies import TARGET
from ornstein.results.result import Result
from ornstein.results.scores import Scores
from ornstein.results.verdicts import CANNOT_TELL, worst

QUALITY, CONVERGENCE, INTERVALS, FIT = "quality", "convergence", "intervals", "fit"

QUESTIONS = {
    QUALITY: "How good is the model?",
    CONVERGENCE: "Did it converge?",
    INTERVALS: "Can the intervals be trusted?",
    FIT: "Does the model fit its rows?",
}
"""By name, in the order in which they are answered."""

_INDENT = " " * 6

UNJUDGED = ""
"""The verdict of an answer that states and does not judge."""


@dataclass(frozen=True)
class Answer:
    """To one of :data:`QUESTIONS`: ``print`` says it.

    Attributes
    ----------
    name
        Of the question.
    verdict
        ``ok``, ``warn``, ``fail``, ``cannot tell``, or nothing where there is nothing to judge.
    sentence
        The answer.
    points
        What was found, with what to do; the first one is the most important.
    table
        Figures, such as scores.
    """

    name: str
    verdict: str
    sentence: str
    points: Sequence[Point] = ()
    table: pd.DataFrame | None = None

    @property
    def question(self) -> str:
        """In words."""
        return QUESTIONS[self.name]

    def __str__(self) -> str:
        """Question, answer, figures, and what to do, a line each."""
        lines = [f"{self.verdict:<5} {self.question}", f"{_INDENT}{self.sentence}"]
        if self.table is not None:
            lines += [_INDENT + line for line in aligned(_rows(self.table))]
        for point in self.points:
            lines += [_INDENT + line for line in point.sentence.splitlines()]
            lines += [f"{_INDENT}-> {point.remedy}"] if point.remedy else []
        return "\n".join(lines)


def _rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    head = ("", *map(str, table.columns))
    return [head, *((name, *line) for name, line in cells(table))]


def cells(table: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """Every row's name, and its numbers to four digits; nothing where there is none."""
    return [
        (str(name), ["" if pd.isna(value) else _shown(value) for value in line])
        for name, line in zip(table.index, table.to_numpy(dtype=object), strict=True)
    ]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{float(value):.4g}"


def answers(
    result: Result | MixedResult,
    diagnosis: Diagnosis,
    first: Answer | None = None,
    target: str = "",
    formula: str = "",
) -> tuple[Answer, ...]:
    """What a run says to every question, of which the first needs rows that were held out.

    ``target`` is the target's name and ``formula`` that of the fit, for what is recommended.
    """
    first = quality(None) if first is None else first
    name = f"`{target}`" if target and not target.isidentifier() else target
    left, right = (part.strip() for part in (formula or f"{name or TARGET} ~ .").split("~", 1))
    fit = _fit(diagnosis, left, right)
    return first, _convergence(result, diagnosis), _intervals(result, diagnosis), fit


def _in_words(scores: Scores) -> str:
    """The first of the scores, beside that of the guess."""
    name, value = next(iter(scores.values.items()))
    guess = scores.baseline.get(name)
    beside = "" if guess is None else f", a guess without columns {max(guess, 0.0):.0%}"
    said = {
        "R^2": f"It explains {value:.0%} of the variance of rows it has not seen",
        "accuracy": f"It names the class of {value:.0%} of rows it has not seen{beside}",
        "concordance": f"It orders {value:.0%} of pairs of waits it has not seen{beside}",
    }
    return said.get(name, f"{name} {value:.3g}")


def quality(scores: Scores | None, unscored: str = "No rows were held out.") -> Answer:
    """The first answer, by scores of rows that were held out."""
    if scores is None:
        return Answer(QUALITY, UNJUDGED, unscored)
    sentence = f"{_in_words(scores)} ({scores.rows:,} rows, {scores.how})."
    points = []
    if not scores.better:
        said = "The model predicts no better than a guess that does not look at the columns."
        points.append(Point("note", said, "find columns that say more about the target"))
    return Answer(QUALITY, UNJUDGED, sentence, points, scores.table())


def failed(found: Sequence[Answer]) -> bool:
    """Whether any answer is a no."""
    return any(answer.verdict == "fail" for answer in found)


def _convergence(result: Result | MixedResult, diagnosis: Diagnosis) -> Answer:
    if not result.status.ok:
        return Answer(CONVERGENCE, "fail", result.status.message)
    check = diagnosis[STATIONARITY]
    found, limit = check.number, check.limit
    if check.verdict == "ok":
        said = f"Yes: the chains agree (R-hat {found:.3f}, below {limit:.3f})."
        return Answer(CONVERGENCE, "ok", said)
    if np.isnan(found) or limit is None:
        said = "No: too few draws to tell."
    elif found > limit:
        nearly = {"warn": "Nearly", "fail": "No"}[check.verdict]
        said = f"{nearly}: the chains differ (R-hat {found:.3f}; up to {limit:.3f} may be chance)."
    else:
        said = "No: the chains agree, but their second halves are elsewhere than their first."
    points = [Point(check.verdict, "The chains have not forgotten their start.", check.remedy)]
    return Answer(CONVERGENCE, check.verdict, said, points)


def _intervals(result: Result | MixedResult, diagnosis: Diagnosis) -> Answer:
    accuracy = diagnosis.accuracy
    if not result.status.ok:
        return Answer(INTERVALS, "fail", "No: the run did not end as planned.")
    if accuracy is None:
        broken = [
            Point(check.verdict, f"Does not hold: {check}.", check.remedy)
            for check in diagnosis
            if diagnosis.judges(check) and check.name != STATIONARITY and check.verdict != "ok"
        ]
        verdict = worst([point.verdict for point in broken])
        sentence = f"Not measured against the posterior: {diagnosis.unmeasured}."
        return Answer(INTERVALS, verdict, sentence, broken)
    points = []
    if accuracy.verdict != "ok":
        found = "\n".join(accuracy.details)
        points.append(Point(accuracy.verdict, found, _how_to_come_closer(result)))
    if accuracy.verdict == CANNOT_TELL:
        return Answer(INTERVALS, CANNOT_TELL, accuracy.sentence, points)
    said = {"ok": "Yes", "warn": "Nearly", "fail": "No"}[accuracy.verdict]
    return Answer(INTERVALS, accuracy.verdict, f"{said}: {_uncapitalised(accuracy)}", points)


def _uncapitalised(accuracy: Accuracy) -> str:
    return accuracy.sentence[0].lower() + accuracy.sentence[1:]


def _how_to_come_closer(result: Result | MixedResult) -> str:
    """What brings draws of a run nearer to the posterior, and is not what was done."""
    draws = result.flat.shape[1]
    if isinstance(result, MixedResult) or result.plan.method in ("nuts", "rotation"):
        mixed = isinstance(result, MixedResult)
        return mixing.longer(draws, "nuts" if mixed else result.plan.method)
    return "use the default method, which follows posteriors of other shapes: method='auto'"


def _fit(diagnosis: Diagnosis, left: str, right: str) -> Answer:
    """``left`` and ``right`` are the sides of the fit's formula."""
    check = next((one for one in diagnosis if one.name == MODEL), None)
    if check is None:
        return Answer(FIT, UNJUDGED, "Not judged by a number: see the pictures.")
    if check.verdict == "ok":
        allowed = f" {diagnosis.allowed}" if diagnosis.allowed else ""
        return Answer(FIT, "ok", f"Yes, as far as these rows can tell.{allowed}")
    if check.verdict == CANNOT_TELL:
        said = "The rows are too few for so many parameters: misfit would look like chance."
        if "too few" in check.meaning:
            said = f"{check.meaning}."
        return Answer(FIT, CANNOT_TELL, f"{said} {diagnosis.allowed}".rstrip())
    points = tuple(
        replace(point, remedy=point.remedy.replace(TARGET, left).replace("~ .", f"~ {right}"))
        for point in diagnosis.on_model
    )
    if not points:
        facts = f"{check.number:.3g} {check.meaning}."
        points = (Point(check.verdict, facts, check.remedy),)
    said = {"warn": "Not entirely.", "fail": "No."}[check.verdict]
    return Answer(FIT, check.verdict, said, points)
