"""Serves a web page for trying out a model, and its JSON API."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.web.app import create_app as create_app
    from keras_encdec.web.endpoints import RequestLimits as RequestLimits
    from keras_encdec.web.endpoints import ServeOptions as ServeOptions
    from keras_encdec.web.explorer import Explorer as Explorer
    from keras_encdec.web.neighbourhood import known_phrases as known_phrases
    from keras_encdec.web.serve import serve as serve

lazy_imports(__name__)
