"""What every task needs and no subject owns: files, progress, worker processes, stop signals, locks, lazy imports."""
