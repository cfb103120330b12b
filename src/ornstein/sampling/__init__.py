"""Motion: the compiled loop, threads and meshes that run it, and engines that are no chains.

Begin with ``runner``, which runs a plan from start to end.
"""
