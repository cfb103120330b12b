"""Motion for mixed models: coordinates that follow the hyperparameters, steps, and runs.

Read ``coordinates`` first, then the three kinds of steps: ``gaussian`` (no rows are needed),
``tested`` (all rows, groups accepted one by one) and ``minibatch`` (few rows, X10 and X11), whose
rows may be on disk (``read_ahead``).
"""
