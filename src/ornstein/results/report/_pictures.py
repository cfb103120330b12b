"""The pictures of a result, each with a heading and a sentence on what to see in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from ornstein.results import plots
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.report._words import compares_matrices
from ornstein.results.result import Result


@dataclass(frozen=True)
class Section:
    """A picture or several, with a heading and a sentence that says what to see."""

    heading: str
    text: str
    figure: Figure | Sequence[Figure]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The pictures."""
        return (self.figure,) if isinstance(self.figure, Figure) else tuple(self.figure)


def of_coefficients(result: Result) -> Section:
    """The forest of intervals."""
    return Section(
        "Coefficients",
        "Mean and 90 % interval of every parameter, in the units the model works in."
        + (" The forty most clearly not zero." if result.plan.dim > 40 else ""),
        plots.intervals(result),
    )


def of_hyperparameters(result: Result) -> list[Section]:
    """The path of what was learned, if anything was."""
    if result.learning is None:
        return []
    return [
        Section(
            "Hyperparameters",
            "How the values moved while they were learned: looks at the optimum, plans, and rounds "
            "of draws. The band holds two posterior standard deviations.",
            plots.hyperparameters(result.learning, result.posterior.learnable),
        )
    ]


def of_chains(result: Result, diagnosis: Diagnosis) -> list[Section]:
    """Whether the chains did what the plan said."""
    found = [
        Section(
            "Traces and ranks",
            "The parameters with the fewest effective draws. Traces of the chains should look "
            "alike, ranks be level.",
            plots.traces(result),
        )
    ]
    if compares_matrices(result):
        found.append(
            Section(
                "Predicted and measured covariance",
                "On the posterior's own scale, exact draws show ones on the diagonal and nothing "
                "elsewhere. Below, every standard deviation over its prediction, with two "
                "Monte-Carlo errors: bars should touch the line.",
                (*plots.covariance_maps(result), plots.spread(result)),
            )
        )
        noise = plots.gradient_noise(result, diagnosis)
        if noise:
            found.append(
                Section(
                    "Gradient noise",
                    "What makes SGD move, direction by direction: the plan was made for the noise "
                    "on the line, points are what the rows show where the draws are. Beside it, "
                    "steps in the direction that is least Gaussian: on the line, they are. What of "
                    "their tails reaches the draws is check A1.",
                    noise,
                )
            )
    else:
        found.append(
            Section(
                "Predicted and measured spread",
                "Standard deviations over their predictions, with two Monte-Carlo errors: bars "
                "should touch the line.",
                plots.spread(result),
            )
        )
    return found
