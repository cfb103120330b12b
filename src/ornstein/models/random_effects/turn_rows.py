"""The rows of a mixed model in the order of a turn: those of its own model, and held effects."""

from dataclasses import dataclass, replace

import numpy as np

from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification
from ornstein.models.random_effects.turns import Place, Turn


@dataclass(frozen=True, eq=False)
class TurnModel:
    """A turn, and all rows sorted by its grouping; its own groupings come first, then the held."""

    turn: Turn
    sorted: MixedPosterior

    @classmethod
    def of(cls, post: MixedPosterior, turn: Turn) -> "TurnModel":
        """Rows are copied unless they are in this order."""
        numbers = turn.number, *turn.kept, *turn.held
        spec, rows = post.specification, post.rows.in_memory()
        groupings = tuple(spec.groupings[number] for number in numbers)
        index = tuple(rows.index[number] for number in numbers)
        design = tuple(rows.design[number] for number in numbers)
        sort = np.argsort(index[0], kind="stable") if turn.number else slice(None)
        index = tuple(own[sort] for own in index)
        made = replace(
            rows,
            x=np.asfortranarray(rows.x[sort]),
            y=rows.y[sort],
            index=index,
            design=tuple(None if own is None else own[sort] for own in design),
            starts=np.searchsorted(index[0], np.arange(groupings[0].levels)),
            weight=None if rows.weight is None else rows.weight[sort],
            offset=None if rows.offset is None else rows.offset[sort],
            order=None if rows.order is None else rows.order[sort],
        )
        own = Specification(spec.family, spec.fixed, groupings, spec.noise_prior, spec.auxiliary)
        levels = tuple(post.levels[number] for number in numbers)
        return cls(turn, replace(post, specification=own, rows=made, levels=levels))

    def given(self, place: Place) -> MixedPosterior:
        """The turn's own model: the held effects are in its offset."""
        rows, count = self.sorted.rows.in_memory(), 1 + len(self.turn.kept)
        offset = np.zeros(rows.size) if rows.offset is None else rows.offset.copy()
        for number, index, design in zip(
            self.turn.held, rows.index[count:], rows.design[count:], strict=True
        ):
            values = place.effects[number][:, index]
            offset += values[0] if design is None else (values * design.T).sum(axis=0)
        own = replace(rows, index=rows.index[:count], design=rows.design[:count], offset=offset)
        return replace(
            self.sorted,
            specification=self.turn.spec,
            rows=own,
            levels=self.sorted.levels[:count],
        )
