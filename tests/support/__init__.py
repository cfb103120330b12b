"""What tests share: posteriors, files, child processes, statistical comparisons."""
