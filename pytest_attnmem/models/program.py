"""The program that is measured: builds the model and its inputs, and runs the recipe."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ..errors import AttnMemError, BudgetError
from ..measurement.qkv_inputs import dtype_of
from ..suggestion import did_you_mean
from ..units import kind_of, shown
from .inputs import STEPS, InputSpec, Recipe, parse_inputs
from .labels import Notes, tensors_in

#: The names that configs of public models give to a size, by symbol; the first found counts.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layers", "depth"),
        "hidden": ("hidden_size", "n_embd", "d_model", "dim", "hidden"),
        "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "heads"),
        "kv_heads": ("num_key_value_heads", "n_kv_heads", "kv_heads"),
        "vocab": ("vocab_size", "vocab"),
        "experts": ("num_local_experts", "num_experts", "n_routed_experts", "experts"),
    }
)


def config_sizes(model: Any) -> dict[str, int]:
    """Returns layers, hidden, heads, kv_heads, vocab and experts from ``model.config``.

    A size that the config does not have is left out; ``kv_heads`` is then ``heads``.
    """
    config = getattr(model, "config", None)
    entries: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    found: dict[str, int] = {}
    for symbol, names in _NAMES.items():
        read = (entries.get(name, getattr(config, name, None)) for name in names)
        values = [value for value in read if isinstance(value, int)]
        if values and not isinstance(values[0], bool):
            found[symbol] = values[0]
    if "heads" in found:
        found.setdefault("kv_heads", found["heads"])
    return found


def optimizer_of(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function from parameters to an optimizer, with PyTorch's own defaults.

    Raises:
        BudgetError: no optimizer has the name.
    """
    import torch

    if callable(name):
        return name
    known: dict[str, Callable[..., Any]] = {
        "adamw": torch.optim.AdamW,
        "adam": torch.optim.Adam,
        "sgd": torch.optim.SGD,
        "adafactor": torch.optim.Adafactor,
    }
    if name not in known:
        raise BudgetError(
            f"unknown optimizer {shown(name)}; expected one of {', '.join(known)}, or pkg.mod:fn"
            f" that makes one of the parameters{did_you_mean(name, known)}"
        )
    return known[name]


def sdpa_backend(name: str) -> Any:
    """Returns PyTorch's ``SDPBackend`` of that name: flash, efficient, math or cudnn.

    Raises:
        BudgetError: there is none.
    """
    from torch.nn.attention import SDPBackend

    known = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "math": SDPBackend.MATH,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    if name not in known:
        raise BudgetError(
            f"unknown backend of SDPA {shown(name)}; expected one of {', '.join(known)}"
            + did_you_mean(name, known)
        )
    return known[name]


def checkpoint_layers(model: Any) -> None:
    """Makes layers keep only their inputs: by the model's own switch, else each of a ModuleList.

    Raises:
        BudgetError: the model has neither.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
        return
    layers = [
        layer
        for module in model.modules()
        if isinstance(module, torch.nn.ModuleList)
        for layer in module
    ]
    if not layers:
        raise BudgetError(
            f"{shown(type(model).__name__)} has no nn.ModuleList of layers to checkpoint; call"
            " torch.utils.checkpoint in the model itself"
        )
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


class Program:
    """A model and a recipe, as a function without arguments that a backend measures."""

    def __init__(self, source: Any, recipe: Recipe, device: str) -> None:
        self.source = source
        self.recipe = recipe
        self.device = device
        self.sizes: dict[str, int] = {}
        """The symbols of the recipe and of the model's config; known after a run."""
        self.parameters = 0

    def __call__(self, notes: Notes) -> None:
        """Builds the model, and runs the recipe."""
        notes.forget()
        with notes.stage("build"):
            model = self._model()
        itemsize = dtype_of(self.recipe.dtype, "dtype").itemsize
        self.sizes = {**config_sizes(model), "itemsize": itemsize, **self.recipe.sizes}
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        names = {id(one): path for path, one in reversed([*_owned(model)])}
        notes.label("weights", _owned(model))
        with notes.stage("run"):
            with notes.phase("inputs"):
                inputs = self._inputs(model)
            notes.label("inputs", (("", tensor) for tensor in tensors_in([*inputs])))
            if self.recipe.train:
                self._train(model, inputs, names, notes)
            else:
                self._infer(model, inputs, notes)

    def _model(self) -> Any:
        import torch

        dtype = dtype_of(self.recipe.dtype, "dtype")
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            if isinstance(self.source, torch.nn.Module):
                model = _copied(self.source, self.device)
            else:
                with torch.device(self.device):
                    model = self.source()
        finally:
            torch.set_default_dtype(before)
        if not isinstance(model, torch.nn.Module):
            raise BudgetError(f"the source made {kind_of(model)}; expected an nn.Module")
        model = model.to(device=self.device, dtype=dtype).train(bool(self.recipe.train))
        if self.recipe.checkpoint:
            checkpoint_layers(model)
        return model

    def _inputs(self, model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the positional inputs and those by name."""
        dtype = dtype_of(self.recipe.autocast or self.recipe.dtype, "dtype")
        specs = self.recipe.inputs or _default_inputs(model)
        made = [(spec.name, spec.make(self.sizes, dtype, self.device)) for spec in specs]
        named = {name: tensor for name, tensor in made if name}
        accepted = inspect.signature(model.forward).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in accepted.values()):
            for name in named.keys() - accepted.keys():
                raise BudgetError(
                    f"{type(model).__name__} has no input {shown(name)}; write {_example(model)}"
                )
        if self.recipe.train and "labels" in accepted and "input_ids" in named:
            named.setdefault("labels", named["input_ids"])
        if "use_cache" in accepted:
            named["use_cache"] = not self.recipe.train
        if not self.recipe.train and "logits_to_keep" in accepted:
            named["logits_to_keep"] = 1  # as generate() reads a prompt
        return tuple(tensor for name, tensor in made if not name), named

    def _train(self, model: Any, inputs: Any, names: Mapping[int, str], notes: Notes) -> None:
        make = optimizer_of(self.recipe.train)
        optimizer = make(model.parameters())
        for _ in range(STEPS):
            for _ in range(self.recipe.accumulate):
                self._backward(model, inputs, notes)
            notes.label("gradients", ((names[id(p)], p.grad) for p in model.parameters()))
            with notes.phase("optimizer"):
                optimizer.step()
            notes.label("optimizer state", _states(optimizer, names))
            with notes.phase("clear"):
                optimizer.zero_grad()

    def _backward(self, model: Any, inputs: Any, notes: Notes) -> None:
        with notes.phase("forward"), self._context():
            output = model(*inputs[0], **inputs[1])
            loss = self._loss(output, inputs)
            if self.recipe.accumulate > 1:
                loss = loss / self.recipe.accumulate
        notes.label("logits and loss", (("", tensor) for tensor in tensors_in(output, 2)))
        notes.label("logits and loss", [("", loss)])
        # Checkpointed layers run their attention again, under the caller's choice of its backend.
        with notes.phase("backward"), self._attention():
            loss.backward()

    def _infer(self, model: Any, inputs: Any, notes: Notes) -> None:
        import torch

        with torch.no_grad():
            with notes.phase("forward"), self._context():
                output = model(*inputs[0], **inputs[1])
            cache = getattr(output, "past_key_values", None)
            notes.label("KV cache", (("", tensor) for tensor in tensors_in(cache)))
            notes.label("logits and loss", (("", tensor) for tensor in tensors_in(output, 2)))
            if self.recipe.new_tokens and cache is None:
                raise BudgetError(
                    f"{type(model).__name__} returns no past_key_values, so that it cannot make"
                    " tokens one by one; leave out new_tokens, on the command line --decode"
                )
            batch = self.sizes.get("B", 1)
            for _ in range(self.recipe.new_tokens):
                output = None  # generate() keeps one token's logits at a time
                with notes.phase("decode"), self._context():
                    token = torch.zeros(batch, 1, dtype=torch.long, device=self.device)
                    rest = {**inputs[1], "past_key_values": cache, "input_ids": token}
                    output = model(**rest)
                notes.label("KV cache", (("", tensor) for tensor in tensors_in(cache)))

    @contextmanager
    def _context(self) -> Iterator[None]:
        """Applies autocast and the chosen attention to a forward pass."""
        import torch

        cast: AbstractContextManager[Any] = nullcontext()
        if name := self.recipe.autocast:
            cast = torch.autocast(torch.device(self.device).type, dtype_of(name, "autocast"))
        with cast, self._attention():
            yield

    def _attention(self) -> AbstractContextManager[Any]:
        from torch.nn.attention import sdpa_kernel

        chosen = self.recipe.sdpa
        return sdpa_kernel(sdpa_backend(chosen)) if chosen else nullcontext()

    def _loss(self, output: Any, inputs: Any) -> Any:
        import torch

        if self.recipe.loss is not None:
            return self.recipe.loss(output)
        if getattr(output, "loss", None) is not None:
            return output.loss
        first = output if isinstance(output, torch.Tensor) else next(tensors_in(output, 2))
        vocab = self.sizes.get("vocab")
        tokens = [t for t in tensors_in([*inputs]) if not t.is_floating_point()]
        if vocab and first.shape[-1] == vocab and tokens:
            return torch.nn.functional.cross_entropy(first.view(-1, vocab), tokens[0].view(-1))
        return first.mean()


@contextmanager
def errors_told() -> Iterator[None]:
    """Tells in one line what a model's own code raises, and where.

    Raises:
        BudgetError: the code raised an error.
    """
    from ..backends.tracing.dispatch_tracker import raised_at

    try:
        yield
    except AttnMemError:
        raise
    except Exception as error:
        problem = f"the model raised {shown(error, 160)}{raised_at(error)}"
        raise BudgetError(problem) from error


def _default_inputs(model: Any) -> tuple[InputSpec, ...]:
    if "input_ids" in inspect.signature(model.forward).parameters:
        return parse_inputs(["input_ids=long[B,N]<vocab"])
    raise BudgetError(
        f"the inputs of {type(model).__name__} are not known; write each, as in {_example(model)}"
    )


def _example(model: Any) -> str:
    """Returns the options of the inputs that a model has to get, as wide as its first layer."""
    text = next(filter(None, map(_taken, model.modules())), "float[B,N,512]")
    required = [
        one.name
        for one in inspect.signature(model.forward).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    named = [f"{name}={text}" for name in required] or [text]
    return " ".join(f"--input '{one}'" for one in named)


def _taken(layer: Any) -> str:
    """Returns the input of a linear layer or an embedding; empty for other modules."""
    if (width := getattr(layer, "in_features", None)) is not None:
        return f"float[B,N,{width}]"
    rows = getattr(layer, "num_embeddings", None)
    return "" if rows is None else f"long[B,N]<{rows}"


def _owned(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields parameters and buffers with the path of the module that owns them."""
    for path, module in model.named_modules():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            yield path, tensor


def _states(optimizer: Any, names: Mapping[int, str]) -> Iterator[tuple[str, Any]]:
    for parameter, state in optimizer.state.items():
        for tensor in tensors_in(state, 3):
            yield names.get(id(parameter), ""), tensor


def _copied(model: Any, device: str) -> Any:
    """Returns a copy of a module whose parameters and buffers are new, and without values."""
    import torch

    new: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        made = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        new[id(tensor)] = made
    return copy.deepcopy(model, new)
