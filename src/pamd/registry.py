"""One small registry: names to classes, found in sibling files and in other people's packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Generic, TypeVar

from pamd.errors import ConfigError, UnknownNameError

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to things of one kind.

    A file placed in `package` registers itself when it is first asked for; a distribution outside this one
    does the same through the entry-point group of the package's name, e.g. ``pamd.distances``.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: make the decorated thing known as `name`. A name is taken once."""

        def add(thing: T) -> T:
            if name in self._entries:
                raise ConfigError(f"{self.kind} {name!r} is registered already, by {self._entries[name]!r}")
            self._entries[name] = thing
            return thing

        return add

    def unregister(self, name: str) -> None:
        """Forget `name`; for tests and notebooks that register something twice."""
        self._entries.pop(name, None)

    def get(self, name: str) -> T:
        """The thing called `name`; UnknownNameError with the nearest valid name otherwise."""
        if name not in self._entries:
            self._discover()
        if name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries)
        return self._entries[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        self._discover()
        return sorted(self._entries)

    def _discover(self) -> None:
        if self._discovered:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        for entry in entry_points(group=self._package):
            if entry.name not in self._entries:
                loaded = entry.load()
                # An entry may name the thing itself, or its module, whose decorator then registers it.
                if not isinstance(loaded, ModuleType):
                    self._entries.setdefault(entry.name, loaded)
        self._discovered = True
