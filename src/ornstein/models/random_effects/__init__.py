"""Random effects: coefficients of groups that share a normal distribution, itself unknown.

Read ``covariances`` first (a term's standard deviations and correlations on the real line), then
``groupings`` (a factor's levels and columns), ``specification`` (the densities, for compiled code),
``rows`` (in memory or on disk) and ``posterior``, which puts them together for the builder,
``ornstein.models.mixed``. ``turns`` divides a model of several large groupings into models of one.
"""
