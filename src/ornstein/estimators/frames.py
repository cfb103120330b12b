"""Data frames of any library as scikit-learn reads them, and predictions as frames."""

from typing import Any, Self

import numpy as np
import pandas as pd

from ornstein._base.checks import choice
from ornstein._base.errors import InputError
from ornstein.data import inputs
from ornstein.data.frames import Frame, content, made, opened

_CONTAINERS = ("default", "pandas", "polars")


def table(X: Any, estimator: str) -> Any:
    """A frame as numbers under the same names, in pandas, whatever its library; else as it is.

    Text and gaps are refused, with a pipeline around the estimator that takes them.
    """
    frame = opened("X", X)
    if not isinstance(frame, Frame):
        return X
    try:
        found = inputs.finite_numbers("X", frame)
    except InputError as error:
        raise InputError(f"{error}{_pipeline(frame, estimator)}") from None
    return pd.DataFrame(found, columns=frame.names, copy=False)


def _pipeline(frame: Frame, estimator: str) -> str:
    """Code to copy that encodes columns of labels and fills in gaps; none where it cannot."""
    contents = {name: content(one) for name, one in zip(frame.names, frame.columns, strict=True)}
    labels = [name for name, found in contents.items() if found in ("text", "categories")]
    if any(found not in ("text", "categories", "numbers") for found in contents.values()):
        return ""
    gaps = any(column.null_count() for column in frame.columns)
    steps = ["SimpleImputer()"] if gaps else []
    lines = ["from sklearn.impute import SimpleImputer"] if gaps else []
    if labels:
        rest = "SimpleImputer()" if gaps else '"passthrough"'
        one_hot = 'OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False)'
        steps = [f"make_column_transformer(({one_hot}, {labels!r}), remainder={rest})"]
        lines.insert(0, "from sklearn.compose import make_column_transformer")
        lines.append("from sklearn.preprocessing import OneHotEncoder")
    if not steps:
        return ""
    lines += [
        "from sklearn.pipeline import make_pipeline",
        f"from ornstein.estimators import {estimator}",
        f"model = make_pipeline({', '.join(steps)}, {estimator}())",
    ]
    return " A pipeline that does it:\n\n    " + "\n    ".join(lines)


def target(y: Any) -> Any:
    """Numbers of a series or of a frame; anything else as it is."""
    found = opened("y", y)
    return y if found is None else inputs.finite_numbers("y", found)


def labels(y: Any) -> Any:
    """Labels of a series or of a frame, none of them missing; anything else as it is."""
    found = opened("y", y)
    if isinstance(found, Frame):
        return np.column_stack([labels(column) for column in found.columns])
    if found is None or content(found) in ("numbers", "truth values"):
        return target(y)
    missing = np.flatnonzero(np.asarray(found.is_null().to_numpy(), bool))
    if len(missing):
        raise InputError(
            f"y has no label in {len(missing)} rows, the first being row {missing[0]}. Drop those "
            "rows."
        )
    return np.asarray(found.to_native())


class OutputMixin:
    """What containers predictions of several columns come in, as scikit-learn's transformers."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container of intervals: what :meth:`predict_interval` returns.

        It is kept by copies and clones. Predictions of one column, and probabilities, are arrays
        throughout, as scikit-learn's are.

        Parameters
        ----------
        transform
            ``"default"`` for arrays, ``"pandas"`` or ``"polars"`` for frames, None to leave it as
            it is. scikit-learn's global setting is for transformers, and changes nothing here.
        """
        if transform is not None:
            chosen = choice("transform", transform, _CONTAINERS)
            self._sklearn_output_config = {"transform": chosen}
        return self

    def _contained(self, X: Any, columns: dict[str, Any]) -> Any:
        """Columns as arrays, or as a frame beside the rows they are of."""
        own = getattr(self, "_sklearn_output_config", {})
        container = own.get("transform", "default")
        return tuple(columns.values()) if container == "default" else made(columns, container, X)
