"""What a parser of one line raises."""


class MalformedLine(ValueError):
    """A line that a format's parser cannot use.

    Args:
        found: str. What was found.
        expected: str. What was expected.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, {expected}")
        self.found, self.expected = found, expected
