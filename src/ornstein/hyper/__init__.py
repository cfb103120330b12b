"""Hyperparameters: learned by variational EM, by MacKay's evidence, or by cross-validation.

Variational EM takes the sampler's stationary distribution as q. Read ``ascent`` first: its
docstring lists the phases, each with a file (``approach``, ``estimates``, ``steps``).
"""

from ornstein.hyper.ascent import ascend
from ornstein.hyper.baselines import CrossValidation, Evidence, cross_validate, evidence
from ornstein.hyper.estimates import Draw
from ornstein.hyper.learning import Learning
from ornstein.hyper.settings import LearningOptions

__all__ = ["CrossValidation", "Draw", "Evidence", "Learning", "LearningOptions", "ascend"]
__all__ += ["cross_validate", "evidence"]
