"""Bodies over sequences, whose growth is known by arithmetic: attention, caches, padding."""

from collections import deque

import torch
from growth.contracts import grows


@grows(holds=("O(N^2 + N*d)",), breaks=("O(N*d)",), sizes={"N": 128, "d": 16})
def all_scores(device, N, d):
    """Scores of every key for every query: 4*N^2 + 8*N*d bytes."""
    q, k = torch.empty(N, d, device=device), torch.empty(N, d, device=device)
    return q @ k.T


@grows(holds=("O(side^4)",), breaks=("O(side^2)", "O(side^3)"), sizes={"side": 128})
def attention_over_patches(device, side):
    """Scores of all pairs of patches of an image: (side/8)^4 numbers."""
    tokens = (side // 8) ** 2
    return torch.empty(tokens, tokens, device=device)


@grows(
    holds=("O(N*window + N*d)",),
    breaks=("O(N*d)", "O(window*d)"),
    sizes={"N": 256, "window": 32, "d": 16},
)
def band_of_scores(device, N, window, d):
    """Scores of a window of keys for each query: 4*N*window + 8*N*d bytes."""
    x = torch.empty(N, d, device=device)
    band = torch.empty(N, window, device=device)
    return x + band.sum()


@grows(
    holds=("O(beams*steps)",),
    breaks=("O(steps)", "O(beams + steps)"),
    sizes={"beams": 4, "steps": 16},
)
def beams_of_a_search(device, beams, steps):
    """Each beam keeps all its steps: 64*beams*steps bytes."""
    return [torch.empty(beams, 16, device=device) for _ in range(steps)]


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 512, "ranks": 4})
def blocks_of_a_ring(device, N, ranks):
    """Ring attention: a rank's block and the one that it receives, 8*64*N/ranks bytes."""
    mine = torch.empty(N // ranks, 64, device=device)
    for _ in range(ranks - 1):
        mine = torch.empty_like(mine)


@grows(
    holds=("O(longest*d)",),
    breaks=("O(d)", "O(steps*d)"),
    sizes={"steps": 32, "longest": 64, "d": 16},
)
def cache_of_full_length(device, steps, longest, d):
    """A cache made for the longest sequence: 4*longest*d bytes; more steps than that raise."""
    cache = torch.zeros(longest, d, device=device)
    for at in range(steps):
        cache[at].fill_(1)


@grows(holds=("O(steps*width)",), breaks=("O(width)",), sizes={"steps": 128, "width": 8})
def cache_of_pages(device, steps, width):
    """Pages of 16 rows: 4*16*width*ceil(steps/16) bytes."""
    pages = []
    for at in range(steps):
        if at % 16 == 0:
            pages.append(torch.empty(16, width, device=device))


@grows(holds=("O(steps*d)",), breaks=("O(d)",), sizes={"steps": 24, "d": 16})
def cache_that_is_concatenated(device, steps, d):
    """A cache that each step copies: 4*d*(2*steps - 1) bytes in the last copy, and the new row."""
    cache = torch.empty(0, d, device=device)
    for _ in range(steps):
        cache = torch.cat([cache, torch.empty(1, d, device=device)])


@grows(holds=("O(N*d)",), breaks=("O(d)",), fixed="chunk", sizes={"N": 256, "chunk": 32, "d": 16})
def chunks_of_a_given_size(device, N, chunk, d):
    """Chunks of queries whose size the test fixes: 4*chunk*N + 4*N*d bytes, linear in N."""
    out = torch.zeros(N, d, device=device)
    for _ in range(0, N, chunk):
        torch.empty(chunk, N, device=device)
    return out


@grows(
    holds=("O(N*chunk + N*d)",),
    breaks=("O(N*d)", "O(chunk*d)"),
    sizes={"N": 256, "chunk": 32, "d": 16},
)
def chunks_of_scores(device, N, chunk, d):
    """Scores of a chunk of queries at a time: 4*chunk*N + 4*N*d bytes, in N/chunk chunks."""
    out = torch.zeros(N, d, device=device)
    for start in range(0, N, chunk):
        scores = torch.empty(min(chunk, N - start), N, device=device)
        out[start : start + chunk].add_(scores.sum())
        del scores
    return out


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 256})
def dense_from_a_threshold_on(device, N):
    """A fused kernel up to 255 rows, all N^2 scores from 256 on."""
    out = torch.empty(N, 16, device=device)
    if N >= 256:
        torch.empty(N, N, device=device)
    return out


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 512})
def dense_where_tiles_do_not_divide(device, N):
    """Tiles of 128 where 128 divides N, all N^2 scores elsewhere: no line bounds it."""
    return torch.empty(N if N % 128 else 128, N, device=device)


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 256})
def flat_scores_beneath_the_weights(device, N):
    """N^2 scores in a flat tensor beneath the peak of weights that are freed before."""
    weights = torch.empty(40_000, device=device)
    del weights
    return torch.empty(N * N, device=device)


@grows(holds=("O(N*groups)",), breaks=("O(N)",), sizes={"N": 64, "heads": 16, "groups": 2})
def grouped_keys_expanded(device, N, heads, groups, d=16):
    """Keys of a few groups, seen as those of each head by a view: 64*N*groups bytes."""
    if heads % groups:
        raise ValueError("groups do not divide heads")
    k = torch.empty(groups, 1, N, d, device=device)
    return k.expand(groups, heads // groups, N, d)


@grows(
    holds=("O(N*heads + N*groups)",),
    breaks=("O(N*groups)",),
    sizes={"N": 64, "heads": 16, "groups": 2},
)
def grouped_keys_repeated(device, N, heads, groups, d=16):
    """Keys of a few groups, repeated for each head: 64*N*groups + 64*N*heads bytes."""
    if heads % groups:
        raise ValueError("groups do not divide heads")
    k = torch.empty(groups, N, d, device=device)
    return k.repeat_interleave(heads // groups, dim=0, output_size=heads)


@grows(
    holds=("O(N*heads*d)",),
    breaks=("O(N*d)", "O(N*heads + N*d)"),
    sizes={"N": 64, "heads": 8, "d": 16},
)
def heads_side_by_side(device, N, heads, d):
    """The outputs of all heads in one tensor: 4*N*heads*d bytes."""
    return torch.empty(N, heads * d, device=device)


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 128, "heads": 8})
def heads_that_divide_the_width(device, N, heads, width=64):
    """Heads divide a width of 64: 4*N*64 bytes for each number of heads that does; others raise."""
    if width % heads:
        raise ValueError(f"{heads} heads do not divide {width}")
    return torch.empty(N, width, device=device).view(N, heads, width // heads)


@grows(
    holds=("O(steps*width)",),
    breaks=("O(window*width)",),
    sizes={"steps": 64, "window": 16, "width": 32},
)
def history_of_all_steps(device, steps, window, width):
    """A buffer that never drops a state: 4*width*steps bytes, though it takes a window."""
    kept = [torch.empty(width, device=device) for _ in range(steps)]
    return kept[-window:]


@grows(
    holds=("O(images^2*N^2)",),
    breaks=("O(images*N)", "O(images*N^2)"),
    sizes={"images": 4, "N": 32},
)
def images_in_one_sequence(device, images, N):
    """The patches of all images as one sequence, with a mask of pairs: 4*(images*N)^2 bytes."""
    return torch.empty(images * N, images * N, device=device)


@grows(holds=("O(N*d + d^2)",), breaks=("O(N*d)", "O(d^2)"), sizes={"N": 64, "d": 32})
def linear_attention(device, N, d):
    """A state of d by d, and the rows: 4*d^2 + 12*N*d bytes."""
    q, k = torch.empty(N, d, device=device), torch.empty(N, d, device=device)
    return q @ (k.T @ q)


@grows(holds=("O(N^2)",), breaks=("O(N)", "O(N*heads)"), sizes={"N": 64, "heads": 8})
def one_head_at_a_time(device, N, heads):
    """The scores of one head at a time, summed: 8*N^2 bytes for any number of heads."""
    total = torch.zeros(N, N, device=device)
    for _ in range(heads):
        total += torch.empty(N, N, device=device)


@grows(holds=("O(batch*longest)",), breaks=("O(longest)",), sizes={"batch": 8, "longest": 64})
def packed_without_padding(device, batch, longest):
    """Half of the sequences have one token, and all are packed: 2*batch*longest + 2*batch bytes."""
    total = sum(longest if row % 2 else 1 for row in range(batch))
    return torch.zeros(total, device=device)


@grows(holds=("O(N*d)",), breaks=("O(d)",), sizes={"N": 500, "d": 8})
def padded_to_a_block(device, N, d):
    """A length padded to 64: 4*64*ceil(N/64)*d bytes, at most 4*N*d + 252*d."""
    return torch.empty(-(-N // 64) * 64, d, device=device)


@grows(
    holds=("O(batch*longest)",),
    breaks=("O(batch + longest)", "O(longest)"),
    sizes={"batch": 8, "longest": 64},
)
def padded_to_the_longest(device, batch, longest):
    """Sequences of 1 to longest tokens, each padded to the longest: 4*batch*longest bytes."""
    return torch.zeros(batch, longest, device=device)


@grows(holds=("O(side^2)",), breaks=("O(side)", "O(side*patch)"), sizes={"side": 64, "patch": 4})
def patches_of_an_image(device, side, patch):
    """Tokens of an image, (side/patch)^2 of 64 numbers: the larger a patch, the fewer."""
    return torch.empty((side // patch) ** 2, 64, device=device)


@grows(
    holds=("O(window*width)",),
    breaks=("O(width)", "O(window)", "O(steps + width)"),
    sizes={"steps": 64, "window": 16, "width": 32},
)
def ring_buffer(device, steps, window, width):
    """A ring buffer that is full: 4*width*(window + 1) bytes, however many steps."""
    last = deque(maxlen=window)
    for _ in range(steps):
        last.append(torch.empty(width, device=device))


@grows(
    holds=("O(layers*tokens*experts)",),
    breaks=("O(tokens*experts + layers)",),
    sizes={"layers": 4, "tokens": 64, "experts": 16},
)
def routing_masks(device, layers, tokens, experts):
    """A mask of experts for each token and choice, of 8 bytes: 64*layers*tokens*experts bytes."""
    return torch.zeros(layers * tokens, 8, experts, dtype=torch.long, device=device)


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 512})
def scores_of_a_window_or_less(device, N, window=32):
    """Scores of a window or of all keys, if there are fewer: 4*N*min(N, 32) bytes."""
    return torch.empty(N, min(N, window), device=device)


@grows(holds=("O(N*state)",), breaks=("O(N + state)", "O(state)"), sizes={"N": 32, "state": 16})
def states_of_all_positions(device, N, state):
    """A scan that keeps the state of each position: 4*N*state bytes."""
    x = torch.zeros(state, device=device)
    states = []
    for _ in range(N):
        x = x * 2
        states.append(x)
    return states


@grows(holds=("O(N*d^2)",), breaks=("O(N*d + d^2)", "O(N*d)"), sizes={"N": 32, "d": 16})
def states_of_linear_attention(device, N, d):
    """A state of d by d for each position: 4*N*d^2 bytes."""
    return torch.empty(N, d, d, device=device)


@grows(holds=("O(N)", "O(N^2)"), breaks=("O(1)",), sizes={"N": 512})
def tiles_above_a_threshold(device, N):
    """Dense up to 128 rows, in tiles of 128 beyond: 4*128*N bytes, linear at every larger size."""
    for _ in range(0, N, 128):
        torch.empty(min(N, 128), N, device=device)


@grows(
    holds=("O(tokens*vocab)",), breaks=("O(tokens + vocab)",), sizes={"tokens": 32, "vocab": 128}
)
def tokens_as_rows(device, tokens, vocab):
    """Tokens become rows as long as the vocabulary, of 8 bytes: 8*tokens*vocab bytes."""
    ids = torch.zeros(tokens, dtype=torch.long, device=device)
    return torch.zeros(tokens, vocab, dtype=torch.long, device=device).scatter_(1, ids[:, None], 1)


@grows(holds=("O(N^2)",), breaks=("O(N)", "O(1)"), sizes={"N": 64})
def weights_above_the_scores(device, N):
    """Weights of 400 KB are made and freed before N^2 scores: the peak stands still, not they."""
    weights = torch.empty(100_000, device=device)
    del weights
    return torch.empty(N, N, device=device)


@grows(holds=("O(window)",), breaks=("O(1)",), sizes={"steps": 16, "window": 16})
def window_as_long_as_the_run(device, steps, window, width=256):
    """A ring buffer that is just full at the end of the run: 4*width*window bytes from there on."""
    last = []
    for _ in range(steps):
        last.append(torch.empty(width, device=device))
        del last[:-window]
