"""The section "coverage" as Markdown."""

from typing import Any

from benchmarks.markdown import number, table

_ABOUT = """## Coverage of mixed models

The share of simulated tables whose {level:.0%} interval covers the truth, by the defaults. Of 200
tables, a share of 90 % has a standard error of 2 %. "Maximum" is the groups' standard deviation
that maximises the Laplace approximation of the evidence, as lme4 and glmmTMB do: a point, its mean
and spread over the tables."""

_HEAD = ["", "tables", "coefficients", "sd of the groups", "true sd", "posterior mean", "maximum"]


def as_markdown(found: dict[str, Any]) -> str:
    """What it is about, and a line for each study."""
    rows = [_line("bernoulli", found["few_rows"])]
    rows += [_line(name, one) for name, one in found["families"].items()]
    return "\n\n".join([_ABOUT.format(level=found["level"]), table(_HEAD, rows)])


def _line(name: str, found: dict[str, Any]) -> list[str]:
    shares = {key: share for key, share in found["covered"].items() if key != "sd(g)"}
    return [
        f"{name}, {found['groups']} groups of {found['rows']}",
        str(found["tables"]),
        ", ".join(f"{key} {share:.1%}" for key, share in shares.items()),
        f"{found['covered']['sd(g)']:.1%}",
        number(found["sd"]),
        _spread(found["posterior_mean"]),
        _spread(found["evidence_maximum"]) if "evidence_maximum" in found else "-",
    ]


def _spread(pair: list[float]) -> str:
    mean, sd = pair
    return f"{mean:.3f} +- {sd:.3f}"
