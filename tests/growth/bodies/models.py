"""Bodies of models and their training, whose growth is known by arithmetic."""

import torch
from growth.contracts import grows


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 200})
def capacity_that_doubles(device, N):
    """A buffer whose capacity doubles: less than 8*N bytes, and half of it while it is copied."""
    buffer = torch.empty(1, device=device)
    for n in range(1, N + 1):
        if n > len(buffer):
            buffer = torch.cat([buffer, torch.empty_like(buffer)])
    return buffer


@grows(
    holds=("8*layers*n + O(n)", "O(layers*n)"),
    breaks=("4*layers*n + O(n)", "O(n)"),
    sizes={"layers": 8, "n": 256},
)
def copy_that_the_formula_lacks(device, layers, n):
    """Vectors of all layers and their stack: 8*layers*n bytes."""
    return torch.stack([torch.zeros(n, device=device) for _ in range(layers)])


@grows(
    holds=("O(vocab*width + tokens*width)",),
    breaks=("O(tokens*width)", "O(vocab + tokens*width)"),
    sizes={"vocab": 256, "tokens": 32, "width": 16},
)
def embedding_and_its_rows(device, vocab, tokens, width):
    """A table of the vocabulary, and the rows of the tokens: 4*width*(vocab + tokens) bytes."""
    table = torch.empty(vocab, width, device=device)
    return table[:tokens].clone(), torch.empty(tokens, width, device=device)


@grows(
    holds=("O(tokens*width)",),
    breaks=("O(tokens + width)",),
    sizes={"tokens": 64, "experts": 8, "width": 16},
)
def experts_one_after_another(device, tokens, experts, width):
    """The tokens of one expert at a time: at most 8*tokens*width bytes for any number of them."""
    out = torch.zeros(tokens, width, device=device)
    for _ in range(experts):
        out += torch.empty(tokens, width, device=device)


@grows(
    holds=("O(tokens*experts*width)",),
    breaks=("O(tokens*width)", "O(tokens*width + experts)"),
    sizes={"tokens": 64, "experts": 8, "width": 16},
)
def experts_that_see_all_tokens(device, tokens, experts, width):
    """Every expert computes every token: 4*tokens*experts*width bytes of outputs."""
    x = torch.empty(tokens, width, device=device)
    return torch.stack([x for _ in range(experts)])


@grows(
    holds=("O(tokens*width)",),
    breaks=("O(width)",),
    sizes={"tokens": 64, "experts": 4, "width": 16},
)
def experts_that_share_tokens(device, tokens, experts, width):
    """Each expert has its share of the tokens: 4*tokens*width bytes where they divide."""
    return [torch.empty(tokens // experts, width, device=device) for _ in range(experts)]


@grows(holds=("4*layers*N*N + O(N)",), breaks=("8*N*N + O(N)",), sizes={"layers": 2, "N": 64})
def formula_for_two_layers(device, layers, N):
    """The scores of two layers by default, of as many as there are by right: 4*layers*N^2 bytes."""
    return torch.empty(layers, N, N, device=device)


@grows(holds=("4*chunk*N + O(N)",), breaks=("2*chunk*N + O(N)",), sizes={"N": 128, "chunk": 16})
def formula_with_a_chunk(device, N, chunk):
    """A chunk of scores and the outputs: 4*chunk*N + 64*N bytes."""
    out = torch.empty(N, 16, device=device)
    torch.empty(chunk, N, device=device)
    return out


@grows(holds=("4*N*N/block + O(N)",), breaks=("4*N*N/64 + O(N)",), sizes={"N": 128, "block": 16})
def formula_with_a_quotient(device, N, block):
    """One number for each block of keys and query: 4*N*N/block + 4*N bytes."""
    out = torch.empty(N, device=device)
    torch.empty(N, N // block, device=device)
    return out


@grows(
    holds=("8*N*N + O(N)", "8*layers*N*N + O(N)"),
    breaks=("4*layers*N*N + O(N)",),
    sizes={"layers": 2, "N": 64},
)
def formula_with_layers_too_many(device, layers, N):
    """Two matrices of N^2 for any number of layers: a formula of 4*layers*N^2 is less for one
    layer.
    """
    return torch.empty(2, N, N, device=device)


@grows(
    holds=("256*d*ceil(N/64) + O(N)",), breaks=("256*ceil(N/64) + O(N)",), sizes={"N": 256, "d": 8}
)
def formula_with_padding(device, N, d):
    """Rows padded to 64, by the formula: 256*d*ceil(N/64) bytes, and 4*N besides."""
    rows = torch.empty(-(-N // 64) * 64, d, device=device)
    return rows, torch.empty(N, device=device)


@grows(holds=("O(steps*n)",), breaks=("O(n)",), sizes={"steps": 6, "n": 128})
def gradients_kept_to_sum(device, steps, n):
    """The gradients of all steps are kept and summed at the end: 4*steps*n bytes, and the stack."""
    kept = [torch.ones(n, device=device) for _ in range(steps)]
    return torch.stack(kept).sum(0)


@grows(
    holds=("O(batch*width^2)",),
    breaks=("O(batch*width + width^2)",),
    sizes={"batch": 16, "width": 16},
)
def gradients_of_each_sample(device, batch, width):
    """A gradient of the weight for each sample: 4*batch*width^2 bytes."""
    return torch.empty(batch, width, width, device=device)


@grows(holds=("O(n)",), breaks=("O(steps)", "O(1)"), sizes={"steps": 6, "n": 128})
def gradients_summed_at_once(device, steps, n):
    """Each gradient is added to the sum and freed: 8*n bytes."""
    total = torch.zeros(n, device=device)
    for _ in range(steps):
        total += torch.ones(n, device=device)
    return total


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 128})
def half_of_a_square(device, N):
    """A packed triangle of a symmetric matrix: 2*N*(N + 1) bytes."""
    return torch.empty(N * (N + 1) // 2, device=device)


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"layers": 6, "N": 64})
def layers_in_place(device, layers, N):
    """Layers that write into one activation: 256*N bytes."""
    x = torch.zeros(N, 64, device=device)
    for _ in range(layers):
        x.sin_()


@grows(holds=("O(layers*N)",), breaks=("O(N)",), sizes={"layers": 6, "N": 64})
def layers_with_gradients(device, layers, N):
    """Each layer saves its input for backward: 256*N*(layers + 3) bytes or so."""
    x = torch.zeros(N, 64, device=device, requires_grad=True)
    y = x
    for _ in range(layers):
        y = y.sin()
    y.sum().backward()


@grows(holds=("O(N)",), breaks=("O(layers)", "O(1)"), sizes={"layers": 6, "N": 64})
def layers_without_gradients(device, layers, N):
    """Layers that keep nothing: two activations, 8*N*64 bytes, however many layers."""
    x = torch.zeros(N, 64, device=device)
    for _ in range(layers):
        x = x.sin()


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 512})
def levels_of_a_pyramid(device, N):
    """Each level has half of the rows of the one before: 4*(N + N/2 + N/4 + ...) < 8*N bytes."""
    levels = []
    while N:
        levels.append(torch.empty(N, device=device))
        N //= 2
    return levels


@grows(
    holds=("O(chunk*vocab + tokens)",),
    breaks=("O(vocab + tokens)",),
    sizes={"tokens": 128, "vocab": 512, "chunk": 16},
)
def logits_in_chunks(device, tokens, vocab, chunk):
    """A loss over chunks of rows: 4*chunk*vocab bytes of logits, and 4*tokens of losses."""
    losses = torch.zeros(tokens, device=device)
    for _ in range(0, tokens, chunk):
        torch.empty(chunk, vocab, device=device)
    return losses


@grows(
    holds=("O(tokens*vocab)",),
    breaks=("O(tokens + vocab)", "O(vocab)"),
    sizes={"tokens": 64, "vocab": 256},
)
def logits_of_all_tokens(device, tokens, vocab):
    """The logits of all tokens: 4*tokens*vocab bytes."""
    return torch.empty(tokens, vocab, device=device)


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 512, "block": 8})
def map_of_blocks(device, N, block):
    """A map of pairs of blocks: 4*(N/block)^2 bytes, quadratic in N though divided by 64."""
    return torch.empty(N // block, N // block, device=device)


@grows(holds=("O(batch)",), breaks=("O(1)", "O(micro)"), sizes={"batch": 64, "micro": 4})
def micro_batches_one_by_one(device, batch, micro):
    """Micro-batches of batch/micro rows, each backward by itself: the more of them, the less
    memory.
    """
    w = torch.ones(32, device=device, requires_grad=True)
    for _ in range(micro):
        x = torch.zeros(batch // micro, 32, device=device)
        (x * w).sin().sum().backward()


@grows(holds=("O(micro*rows)",), breaks=("O(rows)",), sizes={"micro": 4, "rows": 32})
def micro_batches_summed(device, micro, rows):
    """The losses of all micro-batches are summed before backward: 4*128*micro*rows bytes or so."""
    w = torch.ones(32, device=device, requires_grad=True)
    total = 0
    for _ in range(micro):
        x = torch.zeros(rows, 32, device=device)
        total = total + (x * w).sin().sum()
    total.backward()


@grows(holds=("O(N)",), breaks=("O(1)", "O(seed)"), sizes={"N": 64, "seed": 7, "index": 3})
def numbers_that_are_no_sizes(device, N, seed, index):
    """A seed and an index of layers change nothing: 256*N bytes; an index of 4 or more raises."""
    torch.manual_seed(seed)
    width = (64, 64, 64, 64)[index]
    return torch.empty(N, width, device=device)


@grows(
    holds=("16*layers*n*n + O(n^2)",),
    breaks=("12*layers*n*n + O(n^2)",),
    sizes={"layers": 6, "n": 32},
)
def optimizer_of_all_matrices(device, layers, n):
    """The same, with temporaries of all layers at once: 16*layers*n^2 bytes."""
    state = [torch.empty(n, n, device=device) for _ in range(3 * layers)]
    return torch.stack(state[:layers])


@grows(
    holds=("12*layers*n*n + O(n^2)",),
    breaks=("8*layers*n*n + O(n^2)", "O(n^2)"),
    sizes={"layers": 6, "n": 32},
)
def optimizer_of_each_matrix(device, layers, n):
    """Weights, gradients, momenta of all layers, and a temporary: 12*layers*n^2 + 8*n^2 bytes."""
    state = [torch.empty(n, n, device=device) for _ in range(3 * layers)]
    for one in state[:layers]:
        one.add_(one * 2)


@grows(holds=("O(N*layers)",), breaks=("O(N)", "O(N + layers)"), sizes={"layers": 6, "N": 64})
def outputs_of_all_layers(device, layers, N):
    """A loop that returns all layers' outputs, as output_hidden_states does: 256*N*layers bytes."""
    x = torch.zeros(N, 64, device=device)
    states = []
    for _ in range(layers):
        x = x.sin()
        states.append(x)
    return states


@grows(
    holds=("O(batch^2 + batch*width)",),
    breaks=("O(batch*width)",),
    sizes={"batch": 64, "width": 16},
)
def pairs_of_a_batch(device, batch, width):
    """A contrastive loss compares each pair of a batch: 4*batch^2 bytes."""
    x = torch.empty(batch, width, device=device)
    return x @ x.T


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 256})
def stages_of_a_butterfly(device, N):
    """All stages of a butterfly are kept: 4*N*log2(N) bytes, more than any line."""
    return [torch.empty(N, device=device) for _ in range(N.bit_length() - 1)]


@grows(holds=("O(state)",), breaks=("O(N)", "O(1)"), sizes={"N": 32, "state": 16})
def state_of_the_last_position(device, N, state):
    """A recurrence that keeps its last state: 8*state bytes, however many positions."""
    x = torch.zeros(state, device=device)
    for _ in range(N):
        x = x * 2
    return x


@grows(holds=("O(N^2)",), breaks=("O(N)",), sizes={"N": 48})
def table_for_each_length(device, N):
    """A table is kept for each length that came up: 4*(1 + 2 + ... + N) = 2*N^2 + 2*N bytes."""
    tables = {}
    for n in range(1, N + 1):
        tables[n] = torch.empty(n, device=device)


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 48})
def table_for_the_longest(device, N):
    """One table, replaced by a longer one: 4*N + 4*(N - 1) bytes."""
    table = None
    for n in range(1, N + 1):
        table = torch.empty(n, device=device)
    return table


@grows(holds=("O(N)",), breaks=("O(1)",), sizes={"N": 256})
def two_linear_phases(device, N):
    """Two phases, 4*(N + 3000) and 4*16*N bytes: the second overtakes the first at N = 200."""
    torch.empty(N + 3000, device=device)
    torch.empty(16, N, device=device)


@grows(holds=("O(N*d + d^2)",), breaks=("O(N*d)", "O(N + d^2)"), sizes={"N": 64, "d": 64})
def two_phases_of_different_sizes(device, N, d):
    """A phase of d^2 weights, then one of N*d activations: the larger of 4*d^2 and 8*N*d bytes."""
    torch.empty(d, d, device=device)
    x = torch.empty(N, d, device=device)
    return x + 1


@grows(
    holds=("O(batch*side^2*kernel^2)",),
    breaks=("O(batch*side^2)", "O(batch*side^2*kernel)"),
    sizes={"batch": 2, "side": 16, "kernel": 3},
)
def unfolded_convolution(device, batch, side, kernel):
    """The columns of a convolution: 4*batch*side^2*kernel^2 bytes."""
    return torch.empty(batch, kernel * kernel, side * side, device=device)


@grows(holds=("O(N)",), breaks=("O(1)",), fixed=("bits",), sizes={"N": 64, "bits": 32})
def width_of_a_number(device, N, bits):
    """Numbers of 16 or 32 bits: N*bits/8 bytes; others raise, and the test fixes it."""
    return torch.empty(N, dtype={16: torch.float16, 32: torch.float32}[bits], device=device)


@grows(holds=("O(N + calls)",), breaks=("O(N)",), sizes={"calls": 8, "N": 64})
def workspace_for_each_call(device, calls, N):
    """Each call makes a workspace of its own and keeps it: 1024*calls bytes."""
    x = torch.empty(N, device=device)
    return x, [torch.empty(256, device=device) for _ in range(calls)]
