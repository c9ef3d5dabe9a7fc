"""Our side of each row: small programs that use public names alone; each prints one line of JSON."""
