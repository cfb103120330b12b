"""``tfp.optimizer.VariationalSGD``, TensorFlow Probability's form of the same method."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp

from benchmarks.foreign.clock import Task, main

_LOSSES = {
    "linear": lambda eta, y: 0.5 * tf.square(eta - y),
    "logistic": lambda eta, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=eta),
    "softmax": lambda eta, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, eta),
}


def build(task: Task) -> Callable[[int], Any]:
    """Steps of one chain, as a loop in a graph."""
    softmax = task.family == "softmax"
    X = tf.constant(task.X)
    N, D = X.shape
    y = tf.constant(task.y, tf.int32 if softmax else tf.float32)
    theta = tf.Variable(tf.zeros((D, task.outputs) if softmax else D))
    loss = _LOSSES[task.family]
    sgd = tfp.optimizer.VariationalSGD(
        batch_size=task.batch_size, total_num_examples=N, max_learning_rate=task.step_size
    )

    @tf.function
    def run(steps: tf.Tensor) -> tf.Tensor:
        kept = tf.TensorArray(tf.float32, steps // 10)
        for draw in tf.range(steps // 10):
            for _ in tf.range(10):
                index = tf.random.uniform((task.batch_size,), 0, N, tf.int32)
                rows, target = tf.gather(X, index), tf.gather(y, index)
                with tf.GradientTape() as tape:
                    eta = rows @ theta if softmax else tf.linalg.matvec(rows, theta)
                    prior = 0.5 * tf.reduce_sum(tf.square(theta)) / N
                    mean = tf.reduce_mean(loss(eta, target)) + prior
                sgd.apply_gradients([(tape.gradient(mean, theta), theta)])
            kept = kept.write(draw, theta.value())
        return kept.stack()

    return lambda steps: run(tf.constant(steps)).numpy()


if __name__ == "__main__":
    main(build)
