"""Counts words: reads a message from standard input, and writes the answer as it goes."""

import sys

words = sys.stdin.read().split()
for number, word in enumerate(words, start=1):
    print(f"{number} {word}", flush=True)
if not words:
    sys.exit("nothing to count")
