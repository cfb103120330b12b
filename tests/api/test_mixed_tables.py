"""Mixed models on the field's own tables, against long NUTS runs and lme4."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.experiments.mixed import PROBLEMS
from ornstein.experiments.mixed_nuts import nuts
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.results.arviz import ess, rhat
from support.field_tables import require

_ALLOWED = 0.1  # posterior standard deviations; quantiles half as much again


def posterior(name: str) -> MixedPosterior:
    require(name)
    return PROBLEMS[name].posterior()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, one in PROBLEMS.items() if one.nuts])
def test_draws_agree_with_nuts(name: str) -> None:
    post = posterior(name)
    result = orn.sample(post, key=3, draws=2000)
    expected = nuts(post)
    for label, draws in expected.items():
        ours = result[label].astype(float)
        sd = draws.std()
        error = np.sqrt(1 / float(ess(ours)) + 1 / float(ess(draws)))
        assert abs(ours.mean() - draws.mean()) / sd < _ALLOWED + 3 * error, label
        ends = np.quantile(ours, [0.05, 0.95]) - np.quantile(draws, [0.05, 0.95])
        assert (np.abs(ends) / sd < 1.5 * _ALLOWED + 6 * error).all(), label
        assert float(rhat(ours)) < 1.02


@pytest.mark.slow
def test_a_large_crossed_table_is_drawn_well() -> None:
    """Students, lecturers and departments: chains agree, and the noise and the many are lme4's."""
    result = orn.sample(posterior("InstEval"), key=0)
    for name in result.names:
        draws = result[name].astype(float)
        assert float(rhat(draws)) < 1.01, name
        assert float(ess(draws)) > 400, name
        if name != "sd(dept)":  # of 14 departments: its posterior is skewed
            away = draws.mean() - PROBLEMS["InstEval"].lme4[name]
            assert abs(away) < 0.5 * draws.std(), name
