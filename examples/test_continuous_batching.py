"""Continuous batching: requests come and go, and the pool of pages bounds the memory, not they."""

import pytest
import torch

from pytest_attnmem.kernels.paged import PagedCache, attention

H, HKV, D, PAGE, PAGES = 8, 2, 64, 8, 64


def serve(prompts, device, slots=4):
    """Decodes requests of these lengths, ``slots`` at once; returns the tokens that were made.

    A request joins the batch as soon as another has ended, in the middle of its decoding.
    """
    cache = PagedCache(PAGES, PAGE, HKV, D, device=device)
    waiting, left, made = list(prompts), [], 0
    while waiting or left:
        while waiting and len(left) < slots:
            cache.admit()
            left.append(waiting.pop(0))
        B = len(left)
        q, k, v = (torch.ones(B, heads, 1, D, device=device) for heads in (H, HKV, HKV))
        attention(q, k, v, cache=cache)
        made += B
        left = [count - 1 for count in left]
        for row in reversed(range(B)):
            if not left[row]:
                cache.finish(row)
                left.pop(row)
    return made


POOL = "2*PAGES*Hkv*PAGE*d*itemsize"


@pytest.mark.parametrize("prompts", [[12] * 4, [5, 20, 3, 17, 4, 9]])
def test_the_pool_bounds_the_memory(attnmem, prompts):
    found = attnmem.measure(serve, prompts, attnmem.device)
    assert found.result == sum(prompts)
    sizes = {"PAGES": PAGES, "PAGE": PAGE, "Hkv": HKV, "d": D, "itemsize": 4}
    attnmem.check(found, f"{POOL} + 96 KiB", **sizes)


def contiguous(prompts, device, slots=4):
    """Decodes as many at once, with room for the longest in each slot, as batches without pages."""
    room = -(-max(prompts) // PAGE) * PAGE
    return torch.empty(2, len(prompts[:slots]), HKV, room, D, device=device)


def test_pages_need_less_than_room_for_the_longest(attnmem):
    prompts = [1000, 8, 8, 8]
    pages = sum(-(-count // PAGE) for count in prompts)
    attnmem.compare(
        lambda: PagedCache(pages, PAGE, HKV, D, device=attnmem.device),
        lambda: contiguous(prompts, attnmem.device),
        max_ratio=0.27,
    )
