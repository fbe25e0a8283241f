"""The order of the suite: another one for each seed, the same in all workers of a run."""

import os
import random


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.nodeid)
    random.Random(int(os.environ.get("SOAK_SEED", "0"))).shuffle(items)
