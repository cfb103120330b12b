"""Motion for mixed models: coordinates that follow the hyperparameters, steps, and runs.

Read ``coordinates`` first, then the four kinds of steps: ``gaussian`` (no rows are needed),
``tested`` (all rows, groups accepted one by one), ``minibatch`` (few rows, X10 and X11), whose rows
may be on disk (``read_ahead``), and ``turns`` (large crossed groupings one after another, by the
first two).
"""
