"""Numbers of the null device repeat: autograd's thread is done when the program goes on."""


def test_gradients_that_are_freed_at_once_have_one_peak(noted):
    script = """
weight, peaks = torch.ones(1000, device="cuda", requires_grad=True), set()
for _ in range(100):
    torch.cuda.reset_peak_memory_stats()
    for _ in range(5):
        (gradient,) = torch.autograd.grad(weight.sin().sum(), weight)
        del gradient
        torch.ones(100_000, device="cuda")
    peaks.add(torch.cuda.memory_stats()["requested_bytes.all.peak"])
answer(*peaks)
"""
    assert noted(script) == (4000 + 400_000,)


def test_tensors_of_a_failed_pass_are_freed(noted):
    script = """
def fail(gradient):
    raise RuntimeError("no gradient")
weight, peaks = torch.ones(100_000, device="cuda", requires_grad=True), set()
for _ in range(100):
    inner = weight.sin()
    inner.register_hook(fail)
    try:
        inner.exp().sum().backward()
    except RuntimeError:
        pass
    del inner
    torch.cuda.reset_peak_memory_stats()
    torch.ones(1000, device="cuda")
    peaks.add(torch.cuda.memory_stats()["requested_bytes.all.peak"])
answer(*peaks)
"""
    assert noted(script) == (400_000 + 4000,)


def test_a_backward_pass_inside_another_one(noted):
    script = """
from torch.utils.checkpoint import checkpoint
x = torch.ones(10, device="cuda", requires_grad=True)
checkpoint(torch.sin, x, use_reentrant=True).sum().backward()
answer(torch.allclose(x.grad, x.detach().cos()))
"""
    assert noted(script) == (True,)


def test_a_first_backward_pass_inside_a_transform(noted):
    script = """
gradient = torch.func.grad(lambda x: x.sin().sum())(torch.ones(10, device="cuda"))
answer(torch.allclose(gradient, torch.ones(10, device="cuda").cos()))
"""
    assert noted(script, ATTNMEM_TEST="a process of its own") == (True,)


def test_a_double_backward_has_one_peak_whatever_ran_before(noted):
    """It is that of ``simulated``, where one thread makes all nodes."""
    script = """
def step():
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
    m, x = m.cuda(), torch.rand(64, 2, device="cuda", requires_grad=True)
    u = m(x)
    g, = torch.autograd.grad(u.sum(), x, create_graph=True)
    h, = torch.autograd.grad(g[:, 0].sum(), x, create_graph=True)
    (g[:, 1] - .1 * h[:, 0] + u.squeeze(1) * g[:, 0]).pow(2).mean().backward()
def peak():
    level = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    step()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - level
step()
peaks = [peak()]
x = torch.ones(1, device="cuda", requires_grad=True)
y = x
for _ in range(1000):
    y = y * 1
peaks.append(peak())  # after nodes of this thread
g, = torch.autograd.grad((y * y).sum(), x, create_graph=True)
peaks.append(peak())  # after nodes of autograd's
answer(*peaks)
"""
    assert noted(script, TORCH_CUBLAS_WORKSPACE_CACHE="1") == (232_048,) * 3


def test_batched_gradients_and_vectorized_derivatives(noted):
    script = """
from torch.autograd.functional import hessian, jacobian
x = torch.ones(3, 2, device="cuda", requires_grad=True)
rows = torch.eye(3, device="cuda")
batched, = torch.autograd.grad((x * x).sum(1), x, rows, is_grads_batched=True)
y = torch.tensor([1.0, 2.0], device="cuda")
answer(batched.tolist(), jacobian(lambda y: y * y, y, vectorize=True).tolist(),
       hessian(lambda y: y.pow(3).sum(), y, vectorize=True).tolist())
"""
    two, zero = [2, 2], [0, 0]
    assert noted(script, ATTNMEM_TEST="a process of its own") == (
        [[two, zero, zero], [zero, two, zero], [zero, zero, two]],
        [[2, 0], [0, 4]],
        [[6, 0], [0, 12]],
    )
