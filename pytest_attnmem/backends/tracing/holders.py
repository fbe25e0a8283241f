"""Who holds the tensors of a traced run: a walk of referrers, up to a name that a person knows.

Autograd holds tensors in C++: gradients, and what its graph saved for backward.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any, Final

import torch
from torch.autograd.function import BackwardCFunction

from ...errors import ProgramRefused
from ...measurement.garbage import freeze_again, ours_frozen, unfreeze_all
from ...measurement.project import LIBRARY, standing
from ...measurement.protocol import SearchTime
from .owners import (
    ALONE,
    INSTANCE,
    LOCAL,
    MODULE,
    NAMED,
    Edge,
    Owner,
    is_ours,
    is_thread_local,
    owner,
)
from .references import UNNAMED, Named, path, says_more
from .tensor_origin import is_foreign

_SAVED: Final = "_raw_saved_"


def edges(
    live: Iterable[torch.Tensor],
    number_of: Callable[[Any], int | None],
    wanted: set[int],
    seconds: SearchTime,
) -> Iterator[tuple[torch.Tensor, Edge, int]]:
    """Yields a live tensor, the way to a wanted tensor that it holds in C++, and its number."""
    seen: set[Any] = set()
    for tensor in live:
        if seconds.remaining <= 0:
            return
        if tensor.is_leaf:
            gradient = tensor.grad
            if gradient is not None and (number := number_of(gradient)) in wanted:
                yield tensor, Edge("{}.grad", "the gradient of a tensor"), number
            continue
        for node in _graph(tensor.grad_fn, seen):
            if (number := number_of(getattr(node, "variable", None))) in wanted:
                yield tensor, Edge("an input in the graph of {}", "an input of a graph"), number
            for name, kept in _saved(node):
                if (number := number_of(kept)) in wanted:
                    by = f"saved by {name}"
                    yield tensor, Edge(f"{by} in the graph of {{}}", by), number


def is_own_output(ctx: Any, tensors: Iterable[torch.Tensor]) -> bool:
    """Returns True for the context of a function of autograd that made one of the tensors.

    The tensor's ``grad_fn`` holds the context, in C++; if the context holds the tensor, the two are
    a cycle that Python's collector does not see.
    """
    if not isinstance(ctx, BackwardCFunction):
        return False
    held = [*tensors, *_attributes(ctx)]
    seen: set[Any] = set()
    return any(
        node is ctx
        for one in held
        if isinstance(one, torch.Tensor)
        for node in _graph(one.grad_fn, seen)
    )


def _attributes(ctx: Any) -> Iterator[Any]:
    """Yields the values of a context's attributes, and what lists, tuples and dicts there hold."""
    waiting = [*vars(ctx).values()]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()


def _graph(node: Any, seen: set[Any]) -> Iterator[Any]:
    """Yields the nodes of a graph that were not ``seen`` before."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += (one for one, _ in node.next_functions)


def _saved(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors that a node saved, with names; a hook that would unpack one is not run."""
    own = isinstance(node, BackwardCFunction)
    shown = node.name().removesuffix("Backward") + ".ctx" if own else node.name()
    for attribute in dir(node):
        if not attribute.startswith(_SAVED):
            continue
        try:
            saved = getattr(node, attribute)
        except (ProgramRefused, RuntimeError):  # a backward pass has freed them
            continue
        for index, one in enumerate(saved if isinstance(saved, (tuple, list)) else [saved]):
            kept = None if one is None or one.unpack_hook is not None else one.data
            if isinstance(kept, torch.Tensor):
                yield (f"{shown}.saved_tensors[{index}]" if own else shown), kept


UNSEEN: Final = "held by something that Python cannot see"
#: The names that a person would type.
_TYPED: Final = (NAMED, INSTANCE, MODULE)
_OWN_OUTPUT: Final = ", in a cycle through autograd's graph"

#: The most tensors that are searched for at once, objects of one step, and steps.
_TENSORS, _WIDTH, _STEPS = 64, 96, 16
#: The steps beyond the first name: a list may hold the object that has it.
_BEYOND: Final = 4
#: The time that a collection of garbage takes, in steps of a search.
_OF_A_COLLECTION: Final = 4

AllocationOf = Callable[[torch.UntypedStorage], "int | None"]


class _Node:
    """An object that leads to tensors."""

    __slots__ = ("named", "reach", "thing")

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.named = False
        """True if it has a name, or all that it leads to have one by another way."""
        self.reach: dict[int, tuple[_Node, ...]] = {}
        """The objects from this one to a tensor, by the tensor's number. They are nodes, or the
        next step would take the tuple for a holder."""


def holders(
    numbers: Sequence[int],
    allocation_of: AllocationOf,
    seconds: SearchTime,
    *,
    collect: bool = False,
    running: bool = False,
) -> Mapping[int, str]:
    """Returns who holds the live tensors with these numbers, the most important ones first.

    A tensor that the search did not reach in its time is missing; while the program is ``running``,
    so is one that only C++ holds. With ``collect``, garbage is collected, to find out which of them
    were garbage. Objects that this package froze are searched only if the others give no name: a
    search visits every object that is not frozen.
    """
    if not numbers or seconds.left <= 0:
        return {}
    with seconds.spent(), torch._C.DisableTorchFunction():  # nor a mode's
        search = _Search(frozenset(numbers[:_TENSORS]), allocation_of, seconds, running)
        found, complete = search.names()
        further = ours_frozen() and complete and not search.has_named_all(*_TYPED)
        frees = collect and seconds.remaining > _OF_A_COLLECTION * search.took
        references, freed = search.let_go(), set[int]()
        if frees:
            gc.collect()
            freed = {n for n, each in references.items() if all(one() is None for one in each)}
        if further and (rest := references.keys() - freed):
            search = _Search(frozenset(rest), allocation_of, seconds, running)
            names, complete = search.names(everything=True)
            found |= names
            search.let_go()
        if complete and not running:
            found = dict.fromkeys(references.keys() - freed, UNSEEN) | found
        return found | {number: _garbage(found.get(number, "")) for number in freed}


class NamesHolders:
    """A recorder that names who holds its tensors."""

    def allocation_of(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of the allocation of a live storage; None if it is not known."""
        raise NotImplementedError

    def holders(
        self, numbers: Sequence[int], seconds: SearchTime, collect: bool = False
    ) -> Mapping[int, str]:
        """Returns who holds live tensors, by the numbers of their allocations."""
        return holders(numbers, self.allocation_of, seconds, collect=collect)


def _garbage(text: str) -> str:
    """Returns the text with the way in which its tensor is freed."""
    cycle = "" if text.endswith(_OWN_OUTPUT) else ", in a cycle" if text else "a cycle"
    return f"{text}{cycle} that only a garbage collection frees"


class _Search:
    """A search from tensors to their owners, all at once, step by step."""

    def __init__(
        self,
        numbers: frozenset[int],
        allocation_of: AllocationOf,
        seconds: SearchTime,
        running: bool,
    ) -> None:
        self._program_runs = running
        self._numbers = numbers
        self._allocation_of = allocation_of
        self._seconds = seconds
        self.targets: dict[int, list[_Node]] = defaultdict(list)
        self.took = 0.0
        """The seconds that the last step took; each step visits all objects."""
        self._nodes: dict[int, _Node] = {}
        self._best: dict[int, tuple[Owner, tuple[_Node, ...]]] = {}
        self._running = running_frames()
        self._locals = local_variables(self._running)

    def names(self, *, everything: bool = False) -> tuple[dict[int, str], bool]:
        """Returns the names by number, and True if the search saw everything there is.

        It sees what is not frozen, or ``everything``.
        """
        if everything:
            unfreeze_all()
        live = self._find_targets()
        complete = self._climb([*self._nodes.values()]) and self._through_autograd(live)
        if everything:
            freeze_again()
        return {number: self._text(number) for number in self._best}, complete

    def let_go(self) -> dict[int, list[weakref.ref[Any]]]:
        """Returns weak references to the tensors, and forgets all objects."""
        references = {
            number: [weakref.ref(node.thing) for node in nodes]
            for number, nodes in self.targets.items()
        }
        for node in self._nodes.values():  # its ways begin with itself: a cycle
            node.reach.clear()
        self.targets.clear()
        self._nodes.clear()
        self._best.clear()
        self._running.clear()  # the frames of this search hold it: a cycle
        return references

    def _through_autograd(self, live: list[Any]) -> bool:
        """Searches for what C++ alone knows, where a tensor has no name yet; as ``_climb``."""
        unnamed = {
            number
            for number in self.targets
            if number not in self._best or self._best[number][0].rank == ALONE
        }
        if not unnamed or self._program_runs:
            return True
        return self._climb(self._add_edges(live, unnamed))

    def _find_targets(self) -> list[Any]:
        """Finds the objects of each tensor; returns all live tensors and storages."""
        live = _live()
        for thing in live:
            number = self._number(thing)
            if number is not None and number in self._numbers:
                node = self._node(thing)
                node.reach[number] = (node,)
                self.targets[number].append(node)
                self._consider(number, node.reach[number])
        return live

    def _number(self, thing: Any) -> int | None:
        if thing is None:
            return None
        try:
            storage = thing if type(thing) is torch.UntypedStorage else thing.untyped_storage()
            return self._allocation_of(storage)
        except (ProgramRefused, RuntimeError):  # it has none, or none in memory: a sparse or a fake
            return None

    def _add_edges(self, live: list[Any], unnamed: set[int]) -> list[_Node]:
        """Adds the ways to tensors that only C++ knows; returns the objects they begin at."""
        further = []
        tensors = [thing for thing in live if type(thing) is not torch.UntypedStorage]
        for one in [thing for thing in gc.get_objects() if is_thread_local(thing)]:
            namespace = self._nodes.get(id(one.__dict__))
            if namespace is not None:
                further.append(self._node(one))
                self._lead(further[-1], namespace)
        for tensor, edge, held in edges(tensors, self._number, unnamed, self._seconds):
            link = self._node(edge)
            for target in self.targets[held]:
                self._lead(link, target)
            further.append(self._node(tensor))
            self._lead(further[-1], link)
        return further

    def _node(self, thing: Any) -> _Node:
        node = self._nodes.get(id(thing))
        if node is None:
            node = self._nodes[id(thing)] = _Node(thing)
        return node

    def _lead(self, node: _Node, child: _Node) -> bool:
        """Adds the tensors that a child leads to; returns True if some are new."""
        new = [number for number in child.reach if number not in node.reach]
        for number in new:
            node.reach[number] = (node, *child.reach[number])
            self._consider(number, node.reach[number])
        return bool(new)

    def _consider(self, number: int, chain: tuple[_Node, ...]) -> None:
        """Takes the first object of a chain for the owner of a tensor, if it says more."""
        things = _things(chain)
        found = list(self._locals.get(id(chain[0].thing), ()))
        if len(chain) > 1 and (one := owner(chain[0].thing, chain[1].thing)):
            found.insert(0, one)
        for one in found:
            if UNNAMED in path(things, one):
                one = one._replace(rank=ALONE)
            known = self._best.get(number)
            if known is None or says_more(Named(one, things), Named(known[0], _things(known[1]))):
                self._best[number] = one, chain

    def _climb(self, frontier: list[_Node]) -> bool:
        """Finds what holds the objects of ``frontier``, what holds these, and so on.

        Returns False if there was no time to see all that there is.
        """
        last = 0
        for step in range(1, _STEPS):
            named = len(self._best) == len(self.targets)
            if not frontier or self.has_named_all(NAMED) or (named and step > last + _BEYOND):
                return True
            left, before = self._seconds.remaining, dict(self._best)
            if left <= self.took:
                return False
            frontier.sort(key=lambda node: node.named)
            frontier = frontier[_WIDTH:] + self._referrers(frontier[:_WIDTH])
            self.took = left - self._seconds.remaining
            if before != self._best:
                last = step
        return not frontier

    def has_named_all(self, *ranks: int) -> bool:
        """Returns True if each tensor has a name of these kinds."""
        best = self._best
        return all(number in best and best[number][0].rank in ranks for number in self.targets)

    def _referrers(self, frontier: list[_Node]) -> list[_Node]:
        things = [node.thing for node in frontier]
        by_id = {id(node.thing): node for node in frontier}
        found = gc.get_referrers(*things)
        new = []
        for thing in found:
            if thing is things or thing is found or self._is_passed_by(thing):
                continue
            node = self._node(thing)
            held = {id(one): by_id[id(one)] for one in gc.get_referents(thing) if id(one) in by_id}
            names = [owner(thing, child.thing) for child in held.values()]
            known = all(child.named for child in held.values())
            node.named = known or any(one is not None for one in names)
            leads = [self._lead(node, child) for child in held.values()]
            if any(leads) and any(one is None or one.rank != NAMED for one in names):
                new.append(node)
        return new

    def _is_passed_by(self, thing: Any) -> bool:
        if type(thing) is _Node or is_ours(thing):
            return True
        return type(thing) is FrameType and thing in self._running

    def _text(self, number: int) -> str:
        found, chain = self._best[number]
        tensors = [node.thing for node in self.targets[number]]
        cycle = _OWN_OUTPUT if is_own_output(chain[0].thing, tensors) else ""
        return path(_things(chain), found) + cycle


def _things(chain: Sequence[_Node]) -> tuple[Any, ...]:
    return tuple(node.thing for node in chain)


def _live() -> list[Any]:
    """Returns all live tensors and storages."""
    kinds: set[type] = {torch.UntypedStorage}
    further: list[type] = [torch.Tensor]
    while further:
        kind = further.pop()
        kinds.add(kind)
        further += type.__subclasses__(kind)
    return [thing for thing in gc.get_objects() if type(thing) in kinds]


#: The references to a frame's dict: of the frame, a variable and an argument.
_NOT_SHARED: Final = 3


def running_frames() -> dict[FrameType, None]:
    """Returns the frames that run, on any thread, outermost first."""
    frames: list[FrameType] = []
    for frame in sys._current_frames().values():
        one: FrameType | None = frame
        while one is not None:
            frames.append(one)
            one = one.f_back
    return dict.fromkeys(reversed(frames))


def local_variables(running: Iterable[FrameType]) -> dict[int, list[Owner]]:
    """Returns the variables of the program's functions that run, by the id of their value.

    Python before 3.13 keeps the values in a dict that lives as long as the frame: it is emptied.
    """
    found: dict[int, list[Owner]] = defaultdict(list)
    for frame in running:
        code = frame.f_code
        if not code.co_flags & CO_OPTIMIZED:
            continue
        if is_foreign(code.co_filename) or standing(code.co_filename) == LIBRARY:
            continue
        values = frame.f_locals
        for name, value in values.items():
            found[id(value)].append(Owner(LOCAL, name, f"the local {{}} of {code.co_name}"))
        if type(values) is dict and sys.getrefcount(values) <= _NOT_SHARED:
            values.clear()
    return found
