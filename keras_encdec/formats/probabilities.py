"""Numbers as Moses writes and reads them in a phrase table: probabilities, at most six digits."""

import math

# Moses takes the logarithm of what it reads and raises it to this.
LOWEST_LOG_PROBABILITY = -100.0
# e^88 is the last power of e that is finite in the single precision that Moses computes in.
_HIGHEST_COUNT = 88


def format_probability(log_probability: float) -> str:
    """Writes a log-probability as the probability that Moses's tables hold.

    Moses stores max(ln p, -100) in single precision, so that the smallest number written is
    e^-100, 3.72008e-44, and 0 is never written. Below 1.2e-38 (ln p under -87.3) single precision is
    denormal: every reader of Moses takes such numbers (it reads doubles and narrows them, or uses a
    C++ stream), at the cost of at most 0.02 in ln p; where denormals are off, ln 0 becomes Moses's -100.

    Args:
        log_probability: float. Natural logarithm; a positive one, from rounding, is written as 1.

    Returns:
        str, as C's `%.6g` writes it.

    Raises:
        ValueError: when it is not a number or is plus infinity.

    Example:

    >>> format_probability(-0.7), format_probability(-5000.0), format_probability(0.0)
    ('0.496585', '3.72008e-44', '1')
    """
    if not log_probability < math.inf:
        raise ValueError(f"found the log-probability {log_probability}, expected a number up to 0")
    return f"{math.exp(min(0.0, max(LOWEST_LOG_PROBABILITY, log_probability))):.6g}"


def format_exponential(count: int) -> str:
    """Writes a count n as e^n, whose logarithm Moses takes when it loads the table.

    Args:
        count: int. From 0; above 88, where e^n is infinite in single precision, 88 is written.

    Returns:
        str, as C's `%.6g` writes it.

    Raises:
        ValueError: when the count is negative.

    Example:

    >>> format_exponential(0), format_exponential(2)
    ('1', '7.38906')
    """
    if count < 0:
        raise ValueError(f"found the count {count}, expected 0 or more")
    return f"{math.exp(min(count, _HIGHEST_COUNT)):.6g}"
