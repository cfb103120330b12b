"""Random effects: coefficients of groups that share a normal distribution, itself unknown.

Read ``covariances`` first (a term's standard deviations and correlations on the real line), then
``groupings`` (a factor's levels and columns), ``specification`` (the densities, for compiled code)
and ``posterior`` (rows and priors of a mixed model, and the builder ``ornstein.models.mixed``).
"""
