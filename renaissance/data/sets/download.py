"""A program: writes what a URL holds to its standard output, and on a fault the reason to standard error.

`fetch` runs it as a process of its own: a name look-up that hangs can be ended that way, and importing the package loads no HTTP
client. It imports nothing but Python's own library.

Usage: python download.py METHOD URL SECONDS        METHOD: GET, or HEAD to see whether the URL is there
       SECONDS: without a byte, after which it gives up
"""

import http.client
import shutil
import sys
import urllib.error
import urllib.request

_CHUNK_BYTES = 1 << 16


def main(method: str, url: str, seconds: str) -> int:
    """Copy the content; 1 on a fault."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=float(seconds)) as response:
            shutil.copyfileobj(response, sys.stdout.buffer, _CHUNK_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as fault:
        print(reason(fault), file=sys.stderr)
        return 1
    return 0


def reason(fault: Exception) -> str:
    """A fault in a few words: the cause that urllib wrapped, without its error number."""
    if isinstance(fault, urllib.error.HTTPError):
        return f"HTTP {fault.code} {fault.reason}"
    if isinstance(fault, urllib.error.URLError) and isinstance(fault.reason, OSError):
        fault = fault.reason
    if isinstance(fault, TimeoutError):
        return "timed out"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return str(fault) or type(fault).__name__


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
