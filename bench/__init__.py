"""Benchmarks: Renaissance and PyTorch alternating on one machine. Run `python -m bench --help`."""
