"""SGLD of the PyTorch package ``posteriors``, its update called in a loop as it documents."""

from collections.abc import Callable

import posteriors
import torch
from torch.nn import functional

from benchmarks.foreign.clock import Task, main

_LOSSES = {
    "linear": lambda eta, y: 0.5 * functional.mse_loss(eta, y),
    "logistic": functional.binary_cross_entropy_with_logits,
    "softmax": functional.cross_entropy,
}


def build(task: Task) -> Callable[[int], torch.Tensor]:
    """Steps of one chain; the log-posterior per row, at the temperature ``1 / N``."""
    torch.set_num_threads(1)  # two threads stall each other when cores are busy
    softmax = task.family == "softmax"
    X = torch.as_tensor(task.X)
    N, D = X.shape
    y = torch.as_tensor(task.y, dtype=torch.long if softmax else X.dtype)
    loss = _LOSSES[task.family]

    def log_posterior(
        theta: torch.Tensor, batch: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, target = batch
        eta = rows @ theta.T if softmax else rows @ theta
        return -loss(eta, target) - 0.5 * theta.square().sum() / N, torch.tensor([])

    sgld = posteriors.sgmcmc.sgld.build(log_posterior, lr=task.step_size, temperature=1 / N)
    state = sgld.init(torch.zeros((task.outputs, D) if softmax else D))

    def run(steps: int) -> torch.Tensor:
        nonlocal state
        kept = []
        for step in range(steps):
            index = torch.randint(N, (task.batch_size,))
            state, _ = sgld.update(state, (X[index], y[index]), inplace=False)
            if step % 10 == 9:
                kept.append(state.params)
        return torch.stack(kept)

    return run


if __name__ == "__main__":
    main(build)
