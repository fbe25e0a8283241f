"""The attributes of any object, read without running code of its program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any


def is_namespace(thing: Any, held: Any) -> bool:
    """Returns True for the dict that holds the attributes of an object."""
    if type(held) is not dict:
        return False
    if issubclass(type(thing), type):
        return True
    if type(thing) is FunctionType and thing.__kwdefaults__ is held:
        return True
    return namespace_of(thing) is held


def namespace_of(thing: Any) -> Any:
    """Returns the dict of an object's attributes; no code of a program runs."""
    if is_thread_local(thing):
        return threading.local.__getattribute__(thing, "__dict__")
    for kind in type(thing).__mro__:
        descriptor = kind.__dict__.get("__dict__")
        if isinstance(descriptor, (GetSetDescriptorType, MemberDescriptorType)):
            return descriptor.__get__(thing)
    return None


def is_thread_local(thing: Any) -> bool:
    """Returns True for an object with attributes of each thread, and without an initializer.

    An initializer would run where this thread has used none of the attributes.
    """
    kind = type(thing)
    return issubclass(kind, threading.local) and kind.__init__ is threading.local.__init__


def attributes(thing: Any, held: Any) -> Iterator[str]:
    """Yields the names of the attributes of ``thing`` that are ``held``."""
    for name, value in (namespace_of(thing) or {}).items():
        if value is held:
            yield str(name)
    for kind in type(thing).__mro__:
        for name, slot in kind.__dict__.items():
            if isinstance(slot, MemberDescriptorType):
                try:
                    value = slot.__get__(thing)
                except AttributeError:
                    continue
                if value is held:
                    yield name
