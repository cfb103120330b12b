"""A decision before any step: which gain and noise, and how good the draws will be.

``methods`` is the registry of recipes. Begin with ``planner``, which makes a `Plan` for a
posterior.
"""
