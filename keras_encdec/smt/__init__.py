"""What surrounds the model in statistical machine translation."""
