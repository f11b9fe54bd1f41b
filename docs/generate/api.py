"""Directives for mkdocstrings: one per name that a package exports, or one per module if it exports nothing."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def directives(package: str) -> str:
    """Markdown that shows the public names of a package or module.

    Args:
        package: str, such as "keras_encdec.layers".

    Returns:
        str, one ":::" directive per exported name; or, if the package exports nothing, one per module, which shows the
        module's members.
    """
    path = ROOT.joinpath(*_checkout_path(package))
    if path.is_dir():
        exported = exported_names(path / "__init__.py")
        modules = sorted(module.stem for module in path.glob("*.py") if not module.stem.startswith("_"))
        shown = exported or modules
    else:
        shown = []
    return "\n\n".join(f"::: {package}.{name}" for name in shown) or f"::: {package}"


def exported_names(module: pathlib.Path) -> list[str]:
    """The classes and functions that a package's `__init__.py` imports, sorted: its public interface."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    # Also those within `if TYPE_CHECKING`, which are imported when they are first used.
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
    imports = [node for body in bodies for node in body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imports if _is_own(node, module) for alias in node.names}
    return sorted((name for name in names if not name.isupper()), key=str.lower)  # constants have no docstrings


def _is_own(node: ast.ImportFrom, module: pathlib.Path) -> bool:
    """Whether an import is from a module of the package itself, and so makes a name public."""
    return module.parent.name in (node.module or "").split(".")


def _checkout_path(package: str) -> list[str]:
    """Path of a package in the checkout, where `trainers` and `export` are not inside `keras_encdec`."""
    parts = package.split(".")
    if len(parts) > 1 and parts[1] in ("trainers", "export"):
        parts = parts[1:]
    path = ROOT.joinpath(*parts)
    return parts if path.is_dir() else [*parts[:-1], f"{parts[-1]}.py"]
