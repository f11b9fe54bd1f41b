"""Entry points of the installed commands.

Each function imports the module of its name and runs its command. An interrupt during the import is also one line.
"""

import importlib
import sys


def client() -> None:
    """Entry point of `encdec-client`."""
    _run("client")


def decode() -> None:
    """Entry point of `encdec-decode`."""
    _run("decode")


def demo() -> None:
    """Entry point of `encdec-demo`."""
    _run("demo")


def dictionary() -> None:
    """Entry point of `encdec-dictionary`."""
    _run("dictionary")


def evaluate() -> None:
    """Entry point of `encdec-evaluate`."""
    _run("evaluate")


def experiment() -> None:
    """Entry point of `encdec-experiment`."""
    _run("experiment")


def export() -> None:
    """Entry point of `encdec-export`."""
    _run("export")


def extract() -> None:
    """Entry point of `encdec-extract`."""
    _run("extract")


def generate() -> None:
    """Entry point of `encdec-generate`."""
    _run("generate")


def ngram() -> None:
    """Entry point of `encdec-ngram`."""
    _run("ngram")


def ngram_posteriors() -> None:
    """Entry point of `encdec-ngram-posteriors`."""
    _run("ngram_posteriors")


def phrase_features() -> None:
    """Entry point of `encdec-phrase-features`."""
    _run("phrase_features")


def rerank() -> None:
    """Entry point of `encdec-rerank`."""
    _run("rerank")


def report() -> None:
    """Entry point of `encdec-report`."""
    _run("report")


def score() -> None:
    """Entry point of `encdec-score`."""
    _run("score")


def select() -> None:
    """Entry point of `encdec-select`."""
    _run("select")


def serve() -> None:
    """Entry point of `encdec-serve`."""
    _run("serve")


def train() -> None:
    """Entry point of `encdec-train`."""
    _run("train")


def tune() -> None:
    """Entry point of `encdec-tune`."""
    _run("tune")


def verify() -> None:
    """Entry point of `encdec-verify`."""
    _run("verify")


def _run(name: str) -> None:
    try:
        importlib.import_module(f"keras_encdec.cli.{name}").COMMAND.run()
    except KeyboardInterrupt:
        print(f"encdec-{name.replace('_', '-')}: interrupted before it began.", file=sys.stderr)
        sys.exit(130)
