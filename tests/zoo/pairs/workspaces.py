"""Scratch of kernels."""

from zoo.pair import pair


@pair(
    25,
    "Primus-Turbo#480",
    "each band of keys has a gradient of the queries of its own",
    operator="new_zeros",
    limit="4*N*d*itemsize + 64*N*itemsize",
    contract="O(N)",
    N=128,
)
def gradient_for_each_band(qkv, N, *, bad):
    q, k, _ = qkv(1, 1, N, 32)
    bands = N // 16
    grads = q.new_zeros(bands if bad else 1, N, 32)  # guilty
    for band, keys in enumerate(k[0, 0].split(16)):
        grads[band if bad else 0].add_((q[0, 0] @ keys.mT) @ keys)
    return grads.sum(0) if bad else grads[0]


@pair(
    7,
    "xformers#1028",
    "each split of a backward pass has its own accumulator",
    operator="new_zeros",
    limit="3*N*d*itemsize",
    contract="O(1)",
    M=128,
)
def accumulator_for_each_split(qkv, M, *, bad):
    grad, keys, _ = qkv(1, 1, 64, 32, M=M)
    splits = M // 16
    sums = grad.new_zeros(splits if bad else 1, 64, 32)  # guilty
    for split in range(splits):
        sums[split if bad else 0].add_(keys[0, 0, split])
    return sums.sum(0) if bad else sums[0]  # guilty


@pair(
    6,
    "flash-attention#1011",
    "a number for each row is padded to the longest sequence",
    operator="new_zeros",
    limit="2*H*(longest + 8)*itemsize",
    longest=512,
)
def rows_padded_to_the_longest(qkv, longest, *, bad):
    q, _, _ = qkv(1, 4, longest + 8 - 1, 16)
    rows = q.amax(-1)[0]
    if bad:
        padded = rows.new_zeros(8, 4, longest)  # guilty
        padded[0] = rows[:, :longest]
        padded[1:, :, 0] = rows[:, longest:].mT
        return padded.amax((0, 2))
    return rows.amax(-1)
