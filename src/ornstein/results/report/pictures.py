"""The pictures of a result, each with a heading and a sentence that says how to read it."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from ornstein.results import plots
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.report.words import compares_matrices
from ornstein.results.result import Result


@dataclass(frozen=True)
class Section:
    """Pictures with a heading and a sentence that says how to read them."""

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
        "Mean and central 90% interval of every parameter, in the model's own units."
        + (
            " The forty parameters farthest from zero, in standard deviations."
            if result.plan.dim > 40
            else ""
        ),
        plots.intervals(result),
    )


def of_hyperparameters(result: Result) -> list[Section]:
    """The path of the hyperparameters, if any were learned."""
    if result.learning is None:
        return []
    return [
        Section(
            "Hyperparameters",
            "How the values moved while they were learned: evaluations at the optimum, plans, and "
            "rounds of draws. The band is two posterior standard deviations wide to each side.",
            plots.hyperparameters(result.learning, result.posterior.learnable),
        )
    ]


def of_chains(result: Result, diagnosis: Diagnosis) -> list[Section]:
    """Whether the chains did what the plan said."""
    found = [
        Section(
            "Traces and ranks",
            "The parameters with the fewest effective draws. The chains' traces should look alike, "
            "and their ranks should be level.",
            plots.traces(result),
        )
    ]
    if compares_matrices(result):
        found.append(
            Section(
                "Predicted and measured covariance",
                "On the posterior's own scale, exact draws show ones on the diagonal and zeros "
                "elsewhere. Below, every standard deviation divided by its prediction, with two "
                "Monte-Carlo errors: bars should touch the line.",
                (*plots.covariance_maps(result), plots.spread(result)),
            )
        )
        noise = plots.gradient_noise(result, diagnosis)
        if noise:
            found.append(
                Section(
                    "Gradient noise",
                    "The noise of minibatch gradients, direction by direction: the plan assumed "
                    "the line, the points are measured on the rows at the draws. Beside it, the "
                    "steps in the direction that is least Gaussian; Gaussian steps lie on the "
                    "line. How much of their tails reaches the draws is checked below (A1).",
                    noise,
                )
            )
    else:
        found.append(
            Section(
                "Predicted and measured spread",
                "Standard deviations divided by their predictions, with two Monte-Carlo errors: "
                "bars should touch the line.",
                plots.spread(result),
            )
        )
    return found
