"""Motion: the compiled loop, the executors that run it on threads and meshes, and other engines.

Follow one step of ``ornstein.sample``, seven files in all:

1. ``api/sampling.py``: ``sample`` plans and runs, restarts and checkpoints included;
2. ``planning/planner.py``: ``plan`` decides on gain, noise, rule and batches;
3. ``sampling/run.py``: ``run_chains`` lays the rows out and begins the chains;
4. ``sampling/threads.py``: ``ThreadExecutor`` moves them by chunks of segments;
5. ``sampling/loop.py``: ``advance``, the compiled scan, takes a batch and noise for every step;
6. ``planning/rules/fixed_gain.py``: ``FirstOrder.advance`` moves the position by gain and noise;
7. ``models/local_glm.py``: ``minibatch_gradient``, in the chain's coordinates.

``settings.py`` holds what goes into a run and what comes out; ``custom_loops.py`` is for loops of
the user's own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["distributed"])
