"""A registry of classes by name. It finds them in sibling files and in other distributions."""

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
from pamd.schema import explained

_T = TypeVar("_T")

_NAME = re.compile(r"[\w.-]+")
"""The pattern of a valid name. Names are joined with "+" and ":", and are used in file names and settings."""


class Registry(Generic[_T]):
    """A mapping from names to objects of one kind.

    All files in `package` are imported, and register their objects, when a name is first looked up. Other distributions
    provide plug-ins through the entry-point group with the package's name, e.g. ``pamd.distances``. Plug-ins are
    imported only for `names` and for a name that is not built in. If an import fails, a `PluginWarning` names the
    plug-in.
    """

    def __init__(self, kind: str, package: str, *, with_config: bool = False) -> None:
        """`with_config`: every registered object must have a frozen dataclass `Config`."""
        self.kind = kind
        self._package = package
        self._with_config = with_config
        self._failed: list[str] = []
        self._entries: dict[str, _T] = {}
        self._siblings_known = False
        self._plugins_known = False

    def register(self, name: str) -> Callable[[_T], _T]:
        """Return a decorator that registers an object under `name`.

        The same definition may be registered again (a notebook cell run twice, a reloaded module) and replaces itself.
        If the object has a `Config`, `help` of that dataclass explains every option, and its errors name the object.
        """

        def add(thing: _T) -> _T:
            if name in self._entries and not _same_definition(self._entries[name], thing):
                raise ConfigError(f"{self.kind} {name!r} is already registered by {self._entries[name]!r}")
            self._check(name, thing)
            self._entries[name] = thing
            record = getattr(thing, "Config", None)
            if dataclasses.is_dataclass(record) and isinstance(record, type):
                explained(record)
                if "__what__" not in vars(record):
                    record.__what__ = f"{self.kind} {name!r}"  # type: ignore[attr-defined]
            return thing

        return add

    def unregister(self, name: str) -> None:
        """Remove `name`, if it is registered."""
        self._entries.pop(name, None)

    def get(self, name: str) -> _T:
        """Return the object called `name`. Raises UnknownNameError with the nearest valid name if there is none."""
        if not isinstance(name, str):
            raise UnknownNameError(self.kind, name, self.names())
        for discover in (self._import_siblings, self._import_plugins):
            if name not in self._entries:
                discover()
        if name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries, advice=self.advice(name))
        return self._entries[name]

    def names(self) -> list[str]:
        """Return all names, sorted."""
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
        self._plugins_known = True  # Set first, because a plug-in may look up a name during its import.
        for entry in entry_points(group=self._package):
            if entry.name not in self._entries:
                self._import_plugin(entry)

    def _import_plugin(self, entry: EntryPoint) -> None:
        try:
            loaded = entry.load()
            if not isinstance(loaded, ModuleType):
                self._check(entry.name, loaded)
        except Exception as error:  # Importing a plug-in can raise any error.
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
            message = (
                f"the plug-in {entry.name!r} ({entry.value}) in group {entry.group!r} of {origin} could not be"
                f" imported: {type(error).__name__}: {error}"
            )
            self._failed.append(" ".join(message.split()))
            warnings.warn(message, PluginWarning, stacklevel=2)
            return
        # An entry point names the object itself, or its module, where the decorator registers the object.
        if not isinstance(loaded, ModuleType):
            self._entries.setdefault(entry.name, loaded)

    def _check(self, name: str, thing: _T) -> None:
        """Raise ConfigError for a name with invalid characters, or for an object without a required `Config`."""
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

    def advice(self, name: str) -> str:
        """Return a possible reason why a plug-in's name is unknown; empty if a misspelled name is more likely."""
        if self._failed:
            return " ".join(f"{message[0].upper()}{message[1:]}." for message in self._failed)
        if nearest(name, self._entries):
            return ""
        return f"If it is your own, import its module first, or declare it in the entry-point group {self._package!r}."


def _is_frozen(record: type) -> bool:
    params = getattr(record, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)


def _same_definition(one: object, other: object) -> bool:
    """Return whether both objects have the same module and qualified name in the source."""
    places = [(getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)) for thing in (one, other)]
    return None not in places[0] and places[0] == places[1]
