"""A process in the place of a backend: it answers by the names that it is asked for."""

import json
import os
import sys
import time

GREETING = {"facts": None, "versions": {"torch": "2.13.0", "cuda": None}}


def answer(value):
    print(json.dumps(value), flush=True)


answer({"refused": "it has no device"} if sys.argv[1] == "refuses" else GREETING)
for line in sys.stdin:
    name = line.strip()
    if name == "dies":
        print("out of luck", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    if name == "hangs":
        time.sleep(600)
    answer({"requested": len(name), "allocated": 512, "reserved": 2048})
