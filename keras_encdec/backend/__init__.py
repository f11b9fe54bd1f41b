"""What differs between TensorFlow, JAX and PyTorch: compiled calls, loops, gradients, memory, start-up."""
