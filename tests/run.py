"""Runs the tests with every backend and lists all failures at the end.

    python tests/run.py                     each test with the backends that it needs
    python tests/run.py --older_processor   layers, models and scores again, with the instructions of an older processor
    python tests/run.py --backend=jax       the tests of one backend
    python tests/run.py --whole             the whole suite with TensorFlow
    python tests/run.py --record_durations  the whole suite with TensorFlow; records how long each file takes

What a backend computes is tested with all three. What is the same with all of them is tested with PyTorch, whose small
trainings and searches need no tracing. TensorFlow also runs exports, the commands for training, scoring and generating,
and one training of each kind of model.

A failure with one backend does not keep the others from running. If only a few tests failed, they run once more at the
end, alone. Those that pass then are listed, because a test should not depend on what runs beside it. Exits with 1 if
anything failed again.
"""

import argparse
import os
import pathlib
import platform
import re
import subprocess
import sys
from collections.abc import Sequence

TESTS = pathlib.Path(__file__).parent
BACKENDS = "tensorflow", "jax", "torch"
# Two files at a time, each by one process, in the order of conftest.py.
PYTEST = [sys.executable, "-m", "pytest", "--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder"]
# What a backend computes. Everything else is the same with all of them and is tested once: so are the samplers, whose
# searches decoding/generator_test.py runs with every backend.
COMPUTED = [
    "backend",
    "layers",
    "models",
    "pruning/pruning_masks_training_test.py",
    "trainers/budget_test.py",
    "trainers/checkpoints_test.py::test_an_interrupted_run_ends_with_the_weights_of_an_uninterrupted_one[pruning]",
    "scoring/text_scorer_attention_test.py",
    "scoring/source_encoder_test.py",
    "scoring/scorer_contract_test.py",
    "scoring/ngram_scorer_test.py",
    "scoring/scorer_test.py",
    "scoring/candidate_sums_test.py::test_probabilities_are_shared_among_the_candidates_and_the_word",
    "decoding/generator_attention_test.py",
    "decoding/search_batches_test.py",
    "decoding/generator_contract_test.py",
    "decoding/sampler_forbidden_words_test.py",
    "decoding/generator_test.py",
    "decoding/unknown_speller_test.py::test_a_compiled_search_spells_as_one_that_is_not_compiled",
    "web/neighbourhood_test.py::test_requests_of_similar_length_are_compiled_once",
    "benchmarks_test.py::test_the_package_is_measured_with_the_backend",
    "benchmarks_test.py::test_keras_peer_scores_and_trains_on_every_backend",
]
# What only TensorFlow can do, and what most users do with it.
ONLY_WITH_TENSORFLOW = [
    "export",
    "cli/generate_test.py",
    "cli/score_test.py",
    "cli/train_test.py::test_a_killed_run_resumes_with_the_same_result",
    "compatibility_test.py",
    "contributing_test.py",
    "docs_commands_test.py",
    "packaging_test.py",
]
# Trainings of each kind of model, which TensorFlow traces and compiles in different ways, and one by command.
TRACED = [
    "cli/train_test.py::test_it_trains_and_resumes",
    "trainers/resumption_test.py::test_training_in_low_precision_without_xla_is_resumed",
    "trainers/task_training_test.py::test_a_model_directory_has_an_ordinary_model_of_each_task",
    "trainers/train_architectures_test.py::test_a_language_model_is_trained_and_scores",
    "trainers/train_architectures_test.py::test_training_as_in_the_thesis_is_resumed_and_averages_its_last_rounds",
    "trainers/train_test.py::test_a_run_reports_its_data_rounds_and_result",
    "trainers/train_test.py::test_the_result_matches_the_saved_history",
    "trainers/train_test.py::test_concurrent_runs_give_the_results_of_separate_runs",
    "trainers/train_test.py::test_the_seed_determines_the_training",
]
DOCTESTS = ["--doctest-modules", "keras_encdec", "trainers", "export"]
# Modules that import PyTorch, which takes seconds, and have no examples.
WITHOUT_PYTORCH = [
    f"--ignore=keras_encdec/backend/{name}.py" for name in ("cuda_graphs", "torch_int8", "torch_lstm", "torch_products")
]
# With more failures than this, the code is broken, not a test.
MAX_AGAIN = 10
# A line that `run` returns for a test or a file: the backend, the name, and usually the message.
FAILURE = re.compile(r"(?P<backend>\w+): (?:FAILED|ERROR) (?P<test>[^\[ ]+(?:\[.*?\])?)(?: - .*)?")
LAYERS_MODELS_AND_SCORES = ("layers", "models", "scoring")
# Caps the instructions of oneDNN, PyTorch and XLA, with which each library multiplies in another order.
OLDER_PROCESSOR = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    # TensorFlow asks the processor, not oneDNN, for bfloat16: with a capped oneDNN on a newer processor, it crashes.
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


def has_newer_instructions() -> bool:
    """Whether the processor has instructions that OLDER_PROCESSOR caps; `True` if that is not known."""
    if platform.machine().lower() not in ("x86_64", "amd64"):  # a Mac has no /proc to ask
        return False
    try:
        return re.search("avx512|avx_vnni", pathlib.Path("/proc/cpuinfo").read_text()) is not None
    except OSError:
        return True


def parts(backend: str, older_processor: bool = False) -> list[str]:
    """Returns the arguments of pytest that select the tests of a backend; see above.

    Args:
        backend: str.
        older_processor: bool. Whether to select only what depends on the instructions of the processor.
    """
    if older_processor:
        return [str(TESTS / name) for name in COMPUTED if name.startswith(LAYERS_MODELS_AND_SCORES)]
    if backend == "torch":
        files = [f"--ignore={TESTS / name}" for name in ONLY_WITH_TENSORFLOW if "::" not in name]
        # By the names that pytest gives them, which start from the checkout.
        tests = [f"--deselect={TESTS.name}/{name}" for name in ONLY_WITH_TENSORFLOW if "::" in name]
        return [str(TESTS), *DOCTESTS, *files, *tests]
    names = COMPUTED + ONLY_WITH_TENSORFLOW + TRACED if backend == "tensorflow" else COMPUTED
    return [str(TESTS / name) for name in names]


def run(backend: str, arguments: list[str], environment: dict[str, str], command: Sequence[str] = PYTEST) -> list[str]:
    """Runs pytest with one backend.

    Args:
        backend: str.
        arguments: list of str, of pytest.
        environment: dict, variables in addition to those of this process.
        command: list of str, that runs pytest.

    Returns:
        Lines that name the failures; empty if all tests passed.
    """
    environment = {**os.environ, **environment, "KERAS_BACKEND": backend}
    print(f"\nKERAS_BACKEND={backend}", flush=True)
    failures = []
    with subprocess.Popen([*command, *arguments], env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(("FAILED ", "ERROR ")):
                failures.append(f"{backend}: {line.rstrip()}")
    if process.returncode and not failures:
        failures.append(f"{backend}: pytest ended with status {process.returncode}")
    return failures


def run_again(failures: list[str], environment: dict[str, str]) -> list[str]:
    """Runs the tests that failed once more, alone and one after the other.

    Args:
        failures: list of str, what `run` returned for all backends.
        environment: see `run`.

    Returns:
        Lines that name the failures that remain: all of them if there are many, or if pytest itself failed.
    """
    named = [FAILURE.fullmatch(failure) for failure in failures]
    if len(failures) > MAX_AGAIN or not all(named):
        return failures
    remaining = []
    for backend in dict.fromkeys(found["backend"] for found in named):
        tests = [found["test"] for found in named if found["backend"] == backend]
        command = [sys.executable, "-m", "pytest", "--doctest-modules", "--numprocesses=0"]
        remaining += run(backend, tests, environment, command=command)
    return remaining


def main() -> int:
    """Runs the tests and prints all failures at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older_processor", action="store_true", help="cap the instructions at AVX2")
    parser.add_argument("--backend", choices=BACKENDS, help="run the tests of this backend only")
    parser.add_argument(
        "--record_durations", action="store_true", help="write tests/durations.json, from the suite with TensorFlow"
    )
    parser.add_argument("--whole", action="store_true", help="run the whole suite with TensorFlow")
    options = parser.parse_args()
    given = [name for name in ("older_processor", "backend", "whole", "record_durations") if getattr(options, name)]
    if len(given) > 1 and given != ["older_processor", "backend"]:
        parser.error(f"found --{given[0]} with --{given[1]}, expected one of them")
    if options.older_processor and not has_newer_instructions():
        print("This processor has no AVX-512, so the whole suite already runs as on an older processor.")
        return 0
    if options.whole or options.record_durations:
        arguments = [str(TESTS), *DOCTESTS, *WITHOUT_PYTORCH, *["--record_durations"] * options.record_durations]
        runs = [("tensorflow", arguments)]
    else:
        backends = [options.backend] if options.backend else BACKENDS
        runs = [(backend, parts(backend, options.older_processor)) for backend in backends]
    environment = OLDER_PROCESSOR if options.older_processor else {}
    failures = [failure for backend, arguments in runs for failure in run(backend, arguments, environment)]
    remaining = run_again(failures, environment)
    if failures != remaining:
        print("\n".join(["", f"{len(failures)} failures when run beside other tests:", *failures]))
    print("\n".join(["", f"{len(remaining)} failures:", *remaining] if remaining else ["", "All tests passed."]))
    return bool(remaining)


if __name__ == "__main__":
    sys.exit(main())
