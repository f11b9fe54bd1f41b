"""Options of serving the page."""

import dataclasses

from keras_encdec.configuration import hyperparameter
from keras_encdec.task_options import EncodingOption
from keras_encdec.web.request_limits import RequestLimits


@dataclasses.dataclass(frozen=True)
class ServeOptions(EncodingOption, RequestLimits):
    """Options of `serve`: where it listens, the limits of requests, and the encoding of its files."""

    host: str = hyperparameter(
        "127.0.0.1",
        "Name or address to listen at. With 127.0.0.1, only this machine can open the page; with 0.0.0.0, others can.",
    )
    port: int = hyperparameter(8080, "Port to listen at; 0 for any free port.", minimum=0, maximum=65535)
