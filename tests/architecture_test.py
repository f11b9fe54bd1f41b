"""The structure that ARCHITECTURE.md promises, read from the source."""

import ast
import pathlib
import pkgutil
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# A package imports only packages above it. Modules outside packages count as packages.
PACKAGES = [
    ("errors",),
    ("configuration",),
    ("registry",),
    ("runtime",),
    ("model_config",),
    ("sparse_weights",),
    ("architectures",),
    ("task_options",),
    ("formats",),
    ("text",),
    ("trained_model",),
    ("data",),
    ("backend",),
    ("layers",),
    ("models",),
    ("model_directory",),
    ("model_average",),
    ("pruning",),
    ("scoring",),
    ("decoding",),
    ("trainers",),
    ("export",),
    ("smt",),
    ("selection",),
    ("analysis",),
    ("web",),
    ("datasets",),
    ("experiment",),
    ("diagnosis",),
    ("cli",),
]
# What each folder of smt imports of the others.
SMT = {"tuning": {"decoder", "evaluation"}, "decoder": {"ngrams"}}
RANK = {package: rank for rank, packages in enumerate(PACKAGES) for package in packages}
# What users of JAX or PyTorch import.
WITHOUT_TENSORFLOW = {"formats", "text", "data", "layers", "models", "model_directory", "scoring", "decoding"}


def sources():
    """Path, module name and syntax tree of each module of the package."""
    folders = "keras_encdec", "trainers", "export"
    for path in sorted(path for folder in folders for path in ROOT.glob(f"{folder}/**/*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] == "keras_encdec" else ("keras_encdec", *parts)
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        yield path.relative_to(ROOT), ".".join(parts), ast.parse(path.read_text(encoding="utf-8"))


SOURCES = list(sources())
MODULES = {name for _, name, _ in SOURCES}


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(tree, everywhere=False, apart_from=()):
    """Names of the modules that a module imports: when it is imported itself, or ever."""
    for node in ast.walk(tree) if everywhere else at_import(tree.body):
        if getattr(node, "lineno", None) in apart_from:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


def at_import(body):
    """The statements that run when a module is imported."""
    for node in body:
        if is_type_checking(node):
            continue
        yield node
        for inner in ("body", "orelse", "finalbody", "handlers"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from at_import([child for child in getattr(node, inner, []) if isinstance(child, ast.AST)])


def package(module):
    """The package within `keras_encdec` that a module belongs to; `None` for `keras_encdec` itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def test_imported_modules_exist():
    missing = [
        f"{path} imports {imported}"
        for path, _, tree in SOURCES
        for imported in imports(tree, everywhere=True)
        if imported.split(".")[0] == "keras_encdec" and imported not in MODULES
    ]
    assert not missing


def test_every_module_is_in_a_ranked_package():
    assert {package(name) for name in MODULES} - {None} == set(RANK)


def test_imports_run_one_way():
    against = [
        f"{path} imports {imported}"
        for path, name, tree in SOURCES
        for imported in imports(tree)
        if package(name) and imported.startswith("keras_encdec.") and RANK[package(imported)] > RANK[package(name)]
    ]
    assert not against


def test_the_folders_of_smt_import_only_what_they_need():
    found = {}
    for _, name, tree in SOURCES:
        parts = name.split(".")
        for imported in imports(tree, everywhere=True):
            other = imported.split(".")
            if parts[1:2] == ["smt"] == other[1:2] and len(parts) > 3 and len(other) > 3 and parts[2] != other[2]:
                found.setdefault(parts[2], set()).add(other[2])
    assert found == SMT


def test_imports_in_functions_and_by_names_in_strings_run_the_same_way():
    against = set()
    for path, name, tree in SOURCES:
        text = (ROOT / path).read_text(encoding="utf-8")
        by_name = re.findall(r"\"(keras_encdec\.[a-z_.]+)[\":]", text) if "import_module" in text else []
        hints = {
            node.lineno
            for block in tree.body
            if is_type_checking(block)
            for node in ast.walk(block)
            if hasattr(node, "lineno")
        }
        late = [imported for imported in imports(tree, everywhere=True, apart_from=hints)] + by_name
        for imported in late:
            inside = imported.startswith("keras_encdec.") and package(name)
            if inside and RANK[package(imported)] > RANK[package(name)]:
                against.add((name, package(imported)))
    assert not against


def test_no_modules_import_one_another_in_a_circle():
    graph = {name: {m for m in imports(tree) if m in MODULES} - {name} for _, name, tree in SOURCES}
    done = set()
    while graph.keys() - done:
        free = {name for name in graph.keys() - done if graph[name] <= done}
        assert free, sorted(graph.keys() - done)
        done |= free


def test_a_backend_is_imported_only_where_it_runs():
    found = [
        f"{path} imports {imported}"
        for path, name, tree in SOURCES
        for imported in imports(tree)
        if package(name) in WITHOUT_TENSORFLOW
        and imported.split(".")[0] in ("tensorflow", "tensorflow_text")
        or imported.split(".")[0] in ("torch", "jax")
        # imported by functions that run under PyTorch
        and name
        not in [
            f"keras_encdec.backend.{module}" for module in ("cuda_graphs", "torch_int8", "torch_lstm", "torch_products")
        ]
    ]
    assert not found


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        (r"\bbackend\.backend\(\)|\bconfig\.backend\(\)", {"backend"}),
        (r"\bFLAGS\b", set()),
        (r"isinstance\([^)]*(Model|Decoder|Encoder\w*|RecurrentEncoderDecoder)\)", {"model_directory"}),
        (r"(?m)^(?! *>>>).*tempfile\.(TemporaryDirectory|NamedTemporaryFile|mk)", set()),
    ],
    ids=["which backend runs", "global flags", "types of models", "temporary folders that a killed process leaves"],
)
def test_a_pattern_is_used_only_where_it_is_allowed(pattern, allowed):
    found = [
        str(path)
        for path, name, _ in SOURCES
        if package(name) not in allowed and re.search(pattern, (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found


def test_module_names_are_unique():
    """Only a command's module or a package may have the name of another module."""
    names = {}
    for path, name, _ in SOURCES:
        if path.name != "__init__.py" and package(name) != "cli":
            names.setdefault(path.stem, []).append(str(path))
    assert not {stem: paths for stem, paths in names.items() if len(paths) > 1}


def public_functions():
    for path, _, tree in SOURCES:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield path, node
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
                yield from (
                    (path, method) for method in methods if method.name == "__init__" or not method.name.startswith("_")
                )


def test_public_functions_have_type_hints():
    bare = []
    for path, node in public_functions():
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments = [argument for argument in arguments if argument.arg not in ("self", "cls")]
        if any(argument.annotation is None for argument in arguments) or node.returns is None:
            bare.append(f"{path}:{node.lineno} {node.name}")
    assert not bare, "\n".join(bare)


def test_the_files_that_architecture_names_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text)
    assert named
    assert not [name for name in named if not any((ROOT / base / name).is_file() for base in (".", "keras_encdec"))]


def test_the_objects_that_docstrings_name_exist():
    texts = [(ROOT / path).read_text(encoding="utf-8") for path, _, _ in SOURCES]
    named = {name for text in texts for name in re.findall(r"`(keras_encdec\.[\w.]+)`", text)}
    assert len(named) > 20
    for name in sorted(named):
        assert pkgutil.resolve_name(name), name


# Modules of more than 150 lines without their own test file, and the tests of a module that uses them.
TESTED_WITH = {
    "analysis/page/score_sections": "analysis/report_test.py",
    "analysis/page/state_sections": "analysis/report_test.py",
    "analysis/report_sections": "analysis/report_test.py",
    "backend/log_sums": "models/log_probs_test.py",
    "backend/loops": "layers/gru_test.py",
    "backend/mirrored": "backend/distribution_test.py",
    "backend/replicas": "backend/distribution_test.py",
    "decoding/ensemble": "decoding/generator_test.py",
    "decoding/file_generator": "decoding/generate_file_test.py",
    "decoding/generation_options": "decoding/generate_file_test.py",
    "experiment/distillation_options": "experiment/distillation_test.py",
    "experiment/experiment_config": "experiment/experiment_file_test.py",
    "experiment/results": "experiment/experiment_test.py",
    "experiment/stage_functions": "experiment/experiment_test.py",
    "export/client/grpc_client": "export/client/score_file_with_server_test.py",
    "export/client/model_server": "export/client/score_file_with_server_errors_test.py",
    "export/client/served_scorer": "export/client/score_file_with_server_errors_test.py",
    "export/comparison": "export/verification_test.py",
    "export/scoring_graph": "export/served_model_test.py",
    "export/word_translations": "export/served_model_characters_test.py",
    "formats/alignments": "data/pairs_alignment_test.py",
    "layers/attention_step": "models/attention_decoder_test.py",
    "models/contract": "scoring/scorer_contract_test.py",
    "models/likelihood_model": "models/log_probs_test.py",
    "models/recurrent_decoder": "models/recurrent_encoder_decoder_test.py",
    "models/recurrent_encoder": "models/recurrent_encoder_decoder_test.py",
    "runtime/sharded_job": "runtime/engines_test.py",
    "scoring/pair_scorer": "scoring/score_file_test.py",
    "scoring/prefix_tree_decoder": "scoring/scorer_test.py",
    "scoring/record_scorer": "scoring/score_file_test.py",
    "scoring/scoring_options": "scoring/score_file_errors_test.py",
    "selection/corpus_entropies": "selection/select_pairs_test.py",
    "selection/cross_entropies": "selection/select_pairs_test.py",
    "selection/selection_options": "selection/select_pairs_test.py",
    "smt/decoder/phrase_options": "smt/decoder/phrase_decoder_test.py",
    "smt/decoder/phrase_search": "smt/decoder/phrase_decoder_test.py",
    "smt/extraction/extraction_steps": "smt/extraction/extract_test.py",
    "smt/extraction/sentence_batches": "smt/extraction/extract_test.py",
    "smt/nbest/hypothesis_phrases": "smt/nbest/phrase_features_test.py",
    "smt/nbest/phrase_scores": "smt/nbest/phrase_features_test.py",
    "trainers/preparation": "trainers/train_test.py",
    "trainers/settings_checks": "trainers/train_errors_test.py",
    "trainers/tasks": "trainers/task_training_test.py",
    "web/endpoints": "web/app_test.py",
    "web/explorer": "web/app_test.py",
}


def modules_by_path():
    """Number of lines of each module, by its path in the package: `layers/gru`."""
    files = [(path, name) for path, name, _ in SOURCES if path.name != "__init__.py"]
    lines = {name: (ROOT / path).read_text(encoding="utf-8").count("\n") for path, name in files}
    return {name.partition(".")[2].replace(".", "/"): number for name, number in lines.items()}


def module_of_tests(tests, modules):
    """The module whose name a file of tests begins with: `scoring/score_file` for `scoring/score_file_errors`."""
    named = [module for module in modules if tests == module or tests.startswith(f"{module}_")]
    return max(named, key=len, default=None)


def test_tests_are_named_after_the_modules_that_they_test():
    modules, tests = modules_by_path(), ROOT / "tests"
    names = [path.relative_to(tests).as_posix().removesuffix("_test.py") for path in tests.rglob("*_test.py")]
    tested = {name: module_of_tests(name, modules) for name in names}
    assert not [name for name, module in tested.items() if module is None and "/" in name]
    without = modules.keys() - set(tested.values())
    assert {module for module in without if modules[module] > 150} <= set(TESTED_WITH) <= without
    assert not [name for name in TESTED_WITH.values() if not (tests / name).is_file()]
