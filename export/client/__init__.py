"""A client of TensorFlow Serving, which needs neither TensorFlow nor Keras."""
