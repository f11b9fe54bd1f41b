"""The library that computes BLEU, chrF and TER, where it is installed."""

from types import ModuleType


def import_sacrebleu(otherwise: str = "") -> ModuleType:
    """Imports sacrebleu, which belongs to the extra `smt`.

    Args:
        otherwise: str. What the user can do without, starting with a comma. Defaults to nothing.

    Raises:
        ImportError: when it is not installed.
    """
    try:
        import sacrebleu
    except ImportError as error:
        raise ImportError(
            f'BLEU needs sacrebleu, which is not installed: pip install "keras-encdec[smt]"{otherwise}.'
        ) from error
    return sacrebleu
