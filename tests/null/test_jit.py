"""PyTorch's JIT on the null device: traces, scripts, and the values that its own kernels leave."""

X = 'x = torch.arange(4.0, device="cuda")\n'


def test_a_trace_computes_what_the_function_does(noted):
    script = """
def written(x):
    y = x.clone()
    y[0] = 7.0
    y[2:].copy_(x[:2])
    return y
layer = nn.Conv1d(1, 2, 3).cuda().requires_grad_(False)
programs = [
    lambda x: (x * 0.5).cumsum(0) * 2,  # the JIT compares its constants, to merge equal ones
    lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device),
    written,
    lambda x: layer(x.view(1, 1, 4)),
    lambda x: torch.zeros(x.shape[0], device=x.device) + x,
]
found = []
for program in programs:
    traced = torch.jit.trace(program, (torch.ones(4, device="cuda"),))
    found.append(torch.equal(traced(x), program(x)))
def branch(x):
    return x * 2 if x.sum() > 0 else x
inner = torch.jit.trace(lambda x: x + 1, (torch.ones(4, device="cuda"),))
traced = torch.jit.trace(lambda x: {"y": x.clone().add_(1), "z": inner(x)}, (x,), strict=False)
found += [
    torch.equal(torch.jit.trace(branch, (torch.ones(4, device="cuda"),))(x), x * 2),
    all(torch.equal(one, x + 1) for one in traced(x).values()),
]
recorded = [node.kind() for node in torch.jit.trace(written, (x,)).graph.nodes()]
answer(found, "aten::size" in recorded, noting().reads.unknown)
"""
    assert noted(X + script) == ([True] * 7, False, [])


BRANCH = """
unit = torch.jit.CompilationUnit('''
def branch(x):
    if bool(x.sum() > 0):
        y = x * 2
    else:
        y = x - 1
    return y
''')
"""


def test_a_script_branches_by_a_value_at_each_call(noted):
    script = """
answer([unit.branch(sign * x).tolist() for _ in range(3) for sign in (1, -1)])
"""
    assert noted(X + BRANCH + script) == ([[0, 2, 4, 6], [-1, -2, -3, -4]] * 3,)


def test_a_script_that_branches_by_a_value_beyond_the_limit_tells_so(noted):
    script = """
far, told = torch.ones(16384, 16384, device="cuda"), []
for _ in range(2):
    try:
        unit.branch(far @ far)
    except RuntimeError as error:
        told.append("UnknownValue: " in str(error) and "it takes 8.8e+12" in str(error))
answer(told)
"""
    assert noted(X + BRANCH + script) == ([True] * 2,)


def test_a_value_of_a_kernel_that_the_jit_made_is_not_known(noted):
    """PyTorch holds a guard of its dispatcher while it prints, for as long as the error lives."""
    script = """
unit = torch.jit.CompilationUnit('''
def fused(x):
    return (x * x + 1).tanh() * x
''')
for _ in range(3):
    made = unit.fused(x)
excluded = lambda: str(torch._C._dispatch_tls_local_exclude_set())
before, found = excluded(), []
for read in (repr, torch.Tensor.tolist):
    try:
        read(made)
    except BaseException as error:
        found.append(error)
told = {str(error).partition(": ")[2] for error in found}
answer([type(error).__name__ for error in found], excluded() == before, *told)
"""
    assert noted(X + script) == (
        ["UnknownValue", "UnknownValue"],
        True,
        "no operator of PyTorch wrote it: an extension or compiled code did, most likely; if that"
        " is of TorchScript, set PYTORCH_JIT=0, which runs scripts as Python",
    )
