"""What the path of a file may be."""

import os

FilePath = str | os.PathLike[str]
