"""One small registry: names to classes, found in sibling files and in other distributions."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Generic, TypeVar

from pamd.errors import ConfigError, PluginWarning, UnknownNameError, nearest
from pamd.fields import explained

__all__ = ["Registry"]

T = TypeVar("T")

_NAME = re.compile(r"[\w.-]+")
"""Names are joined by "+" and ":", and are parts of file names and of settings."""


class Registry(Generic[T]):
    """Names to things of one kind.

    A file placed in `package` registers itself when a name is first looked up. Another distribution does the same
    through the entry-point group of the package's name, e.g. ``pamd.distances``. Its plug-ins are imported only for
    `names` and for a name that is not built in. One that fails to import is named in a `PluginWarning`.
    """

    def __init__(self, kind: str, package: str, *, with_config: bool = False) -> None:
        """`with_config`: everything registered must have a frozen dataclass `Config`."""
        self.kind = kind
        self._package = package
        self._with_config = with_config
        self._failed: list[str] = []
        self._entries: dict[str, T] = {}
        self._siblings_known = False
        self._plugins_known = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: make the decorated thing known as `name`.

        The same definition may register again (a notebook cell run twice, a reloaded module) and replaces itself. Where
        the thing has a `Config`, `help` of that record explains every option.
        """

        def add(thing: T) -> T:
            if name in self._entries and not _same_definition(self._entries[name], thing):
                raise ConfigError(f"{self.kind} {name!r} is already registered by {self._entries[name]!r}")
            self._check(name, thing)
            self._entries[name] = thing
            record = getattr(thing, "Config", None)
            if dataclasses.is_dataclass(record) and isinstance(record, type):
                explained(record)
            return thing

        return add

    def unregister(self, name: str) -> None:
        """Forget `name`."""
        self._entries.pop(name, None)

    def get(self, name: str) -> T:
        """The thing called `name`; UnknownNameError with the nearest valid name otherwise."""
        if not isinstance(name, str):
            raise UnknownNameError(self.kind, name, self.names())
        for discover in (self._import_siblings, self._import_plugins):
            if name not in self._entries:
                discover()
        if name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries, advice=self._advice(name))
        return self._entries[name]

    def names(self) -> list[str]:
        """All names, sorted."""
        self._import_siblings()
        self._import_plugins()
        return sorted(self._entries)

    def _import_siblings(self) -> None:
        if self._siblings_known:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        self._siblings_known = True

    def _import_plugins(self) -> None:
        if self._plugins_known:
            return
        self._plugins_known = True  # First: a plug-in may look up a name while it is imported.
        for entry in entry_points(group=self._package):
            if entry.name not in self._entries:
                self._import_plugin(entry)

    def _import_plugin(self, entry: EntryPoint) -> None:
        try:
            loaded = entry.load()
            if not isinstance(loaded, ModuleType):
                self._check(entry.name, loaded)
        except Exception as error:  # a plug-in's module may raise anything on import
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
            message = (
                f"the plug-in {entry.name!r} ({entry.value}) in group {entry.group!r} of {origin} could not be"
                f" imported: {type(error).__name__}: {error}"
            )
            self._failed.append(" ".join(message.split()))
            warnings.warn(message, PluginWarning, stacklevel=2)
            return
        # An entry may name the thing itself, or its module, whose decorator then registers it.
        if not isinstance(loaded, ModuleType):
            self._entries.setdefault(entry.name, loaded)

    def _check(self, name: str, thing: T) -> None:
        """Raise ConfigError for a name that composed names could not hold, or a thing without its `Config`."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"a {self.kind} must be named in letters, digits, '-', '_' and '.', got {name!r}")
        record = getattr(thing, "Config", None)
        if not self._with_config or (isinstance(record, type) and _is_frozen(record)):
            return
        got = "no Config" if record is None else getattr(record, "__name__", type(record).__name__)
        raise ConfigError(
            f"{self.kind} {name!r}: {getattr(thing, '__name__', repr(thing))} must have a frozen dataclass as its"
            f" Config (@dataclass(frozen=True)), got {got}"
        )

    def _advice(self, name: str) -> str:
        """What may keep a plug-in's name from being known. Nothing where a misspelt name is likelier."""
        if self._failed:
            return " ".join(f"{message[0].upper()}{message[1:]}." for message in self._failed)
        if nearest(name, self._entries):
            return ""
        return f"If it is your own, import its module first, or declare it in the entry-point group {self._package!r}."


def _is_frozen(record: type) -> bool:
    params = getattr(record, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)


def _same_definition(one: object, other: object) -> bool:
    """Whether both come from the same place in the source: equal module and qualified name."""
    places = [(getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)) for thing in (one, other)]
    return None not in places[0] and places[0] == places[1]
