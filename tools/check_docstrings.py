"""Validate the docstrings of everything public by numpydoc.

Public is what ``tensormend.__all__`` names, what the ``__all__`` of the modules among these names,
and what the pages in docs/api show; of classes also their public methods and properties, inherited
ones included. The checks are those of ``[tool.numpydoc_validation]`` in pyproject.toml, and RS01:
functions and constructors that raise an error have a Raises section.

The command ``numpydoc lint`` cannot be told what is public, and its rules are changed in two ways:
a field of a data class is documented as a parameter or as an attribute, not as both, and a method
that overrides another, or implements one of a public protocol, need not repeat its sections.

``python tools/check_docstrings.py`` prints the errors and fails if there are any; ``--list`` prints
the names that are checked.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, error, get_validation_checks, validate

ROOT = Path(__file__).parents[1]
PACKAGE = "tensormend"
SAID_BY_BASE = {"PR01", "RT01", "YD01", "RS01"}
DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto(?:class|function|module)):: ([\w.]+)$", re.M)


# what is public


def walk_public() -> dict[str, Any]:
    """Return everything to check by the name under which it is defined."""
    package = import_module(PACKAGE)
    found: dict[str, Any] = {}
    for name in package.__all__:
        _add(getattr(package, name), found)
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        module = PACKAGE
        for directive, name in DIRECTIVE.findall(page.read_text("utf-8")):
            if directive == "currentmodule":
                module = name
            else:
                _add(_import(name if name.startswith(PACKAGE) else f"{module}.{name}"), found)
    return found


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(import_module(module), attribute)


def _add(thing: Any, found: dict[str, Any]) -> None:
    if isinstance(thing, ModuleType):
        for name in thing.__all__:
            if not isinstance(getattr(thing, name), ModuleType):
                _add(getattr(thing, name), found)
    elif inspect.isclass(thing) or inspect.isfunction(thing):
        if _is_ours(thing):
            found[f"{thing.__module__}.{thing.__qualname__}"] = thing
        if inspect.isclass(thing):
            found.update(_members(thing))


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class and of those it inherits from."""
    for owner in filter(_is_ours, cls.__mro__):
        for name, member in vars(owner).items():
            function = _unwrap(member)
            if not name.startswith("_") and function is not None and _is_ours(function):
                yield f"{owner.__module__}.{owner.__qualname__}.{name}", member


def _unwrap(member: Any) -> Any:
    """Return the function behind a method or property, and nothing for another attribute."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if inspect.isfunction(member) else None


def _is_ours(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] == PACKAGE


# what is checked


class PublicValidator(Validator):  # type: ignore[misc]
    """The validator of numpydoc, with attributes of classes beside parameters."""

    def __init__(self, obj_name: str) -> None:
        settings = {"show_class_members": False}  # only sections that are written
        super().__init__(get_doc_object(Validator._load_obj(obj_name), config=settings))

    @property
    def doc_all_parameters(self) -> dict[str, tuple[str, list[str]]]:
        """Types and descriptions of parameters and attributes."""
        attributes = self._doc_parameters(["Attributes"]) if inspect.isclass(self.obj) else {}
        return {**super().doc_all_parameters, **attributes}

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        """Names of the parameters, none for enumerations, protocols and plain exceptions."""
        if inspect.isclass(self.obj):
            if issubclass(self.obj, Enum) or getattr(self.obj, "_is_protocol", False):
                return ()
            if issubclass(self.obj, Exception) and "__init__" not in vars(self.obj):
                return ()
        return tuple(super().signature_parameters)

    @property
    def is_function_or_method(self) -> bool:
        """Whether it can return a value, as class methods do too."""
        return inspect.isfunction(self.obj) or inspect.ismethod(self.obj)

    @property
    def method_returns_something(self) -> bool:
        """Whether the annotation says so, also for abstract methods."""
        returned = inspect.signature(self.obj).return_annotation
        nothing = (None, "None", "NoReturn", inspect.Signature.empty)
        return returned not in nothing and not self.is_generator_function

    @property
    def parameter_mismatches(self) -> list[tuple[str, str]]:
        """Errors in the names of parameters; attributes need not be parameters."""
        expected = self.signature_parameters
        parameters = [name.replace("\\", "") for name in super().doc_all_parameters]
        others = [name for name in self.doc_all_parameters if name in expected]
        documented = tuple(dict.fromkeys([*parameters, *others]))
        found = []
        missing = [name for name in expected if name not in documented]
        unknown = [name for name in documented if name not in expected]
        if missing:
            found.append(error("PR01", missing_params=", ".join(missing)))
        if unknown:
            found.append(error("PR02", unknown_params=", ".join(unknown)))
        if not missing and not unknown and documented != expected:
            found.append(error("PR03", actual_params=expected, documented_params=documented))
        return found


def raises(thing: Any) -> set[str]:
    """Name the errors that the body of a function or the constructor of a class raises."""
    if inspect.isclass(thing):
        if getattr(thing, "_is_protocol", False):
            return set()
        function = vars(thing).get("__post_init__", vars(thing).get("__init__"))
    else:
        function = _unwrap(thing)
    try:
        source = textwrap.dedent(inspect.getsource(function)) if function else ""
    except OSError:  # made by a decorator
        return set()
    calls = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    return {ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)}


def has_base(name: str, protocols: list[type]) -> bool:
    """Tell whether a base class, or a protocol that the class implements, has the method too."""
    owner, _, method = name.rpartition(".")
    cls = _import(owner)
    if not inspect.isclass(cls):
        return False
    bases = [base for base in cls.__mro__[1:] if _is_ours(base)]
    for protocol in protocols:
        wanted = [key for key, member in vars(protocol).items() if inspect.isfunction(member)]
        wanted = [key for key in wanted if not key.startswith("_")]
        if cls is not protocol and all(hasattr(cls, key) for key in wanted):
            bases.append(protocol)
    return any(method in vars(base) for base in bases)


def read_checks(path: Path) -> set[str]:
    """Return the codes of the checks that pyproject.toml asks for, and our own."""
    settings = tomllib.loads(path.read_text("utf-8"))["tool"]["numpydoc_validation"]
    return {"RS01", *get_validation_checks(set(settings["checks"]))}


def check(names: dict[str, Any], checks: set[str]) -> Iterator[tuple[str, int, str, str, str]]:
    """Yield file, line, name, code and message of every error."""
    protocols = [thing for thing in names.values() if getattr(thing, "_is_protocol", False)]
    for name, thing in names.items():
        found = validate(name, validator_cls=PublicValidator)
        excused = set()
        if not inspect.isclass(thing) and has_base(name, protocols):
            excused = SAID_BY_BASE
        wrong = list(found["errors"])
        errors = raises(thing)
        if errors and not re.search(r"^ *Raises$", thing.__doc__ or "", re.M):
            wrong.append(("RS01", f"No Raises section found for {', '.join(sorted(errors))}"))
        for code, message in wrong:
            if code in checks - excused:
                path = Path(found["file"]).relative_to(ROOT)
                yield str(path), found["file_line"] or 1, name, code, message


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the names that are checked")
    given = parser.parse_args()
    names = walk_public()
    if given.list:
        sys.stdout.write("".join(f"{name}\n" for name in sorted(names)))
        return
    found = sorted(check(names, read_checks(ROOT / "pyproject.toml")))
    for path, line, name, code, message in found:
        sys.stdout.write(f"{path}:{line}: {code} {name}: {message}\n")
    if found:
        counts = ", ".join(
            f"{n} {code}" for code, n in sorted(Counter(row[3] for row in found).items())
        )
        sys.exit(f"{len(found)} errors in the docstrings of {len(names)} public names: {counts}")
    sys.stdout.write(f"{len(names)} public docstrings are valid\n")


if __name__ == "__main__":
    main()
