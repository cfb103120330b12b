"""Mixed models on the field's own tables, against long NUTS runs."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.results.arviz import ess, rhat
from support.mixed_nuts import nuts
from support.mixed_tables import TABLES

_ALLOWED = 0.1  # posterior standard deviations; quantiles half as much again


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sleepstudy", "cbpp", "radon", "contraception"])
def test_draws_agree_with_nuts(name: str) -> None:
    post = TABLES[name]()
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
def test_crossed_effects_agree_with_lme4_where_it_is_known() -> None:
    """Persons and items: maximum likelihood has 1.35 and .56 or so for the standard deviations."""
    result = orn.sample(TABLES["verbagg"](), key=0, draws=500)
    assert result["sd(id)"].mean() == pytest.approx(1.36, abs=0.04)
    assert result["sd(item)"].mean() == pytest.approx(0.58, abs=0.06)
    assert result.summary()["r_hat"].max() < 1.02
