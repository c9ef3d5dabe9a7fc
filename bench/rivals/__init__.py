"""The PyTorch side of each row, written for speed as its own experts would; each program prints one line of JSON."""
