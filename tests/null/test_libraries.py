"""cuFFT, cuSOLVER and cuBLAS's batched solvers on the null device: values, errors and windows."""

HOST = """
import torch
from torch import linalg as L
from pytest_attnmem.backends.null.noting import noting
from pytest_attnmem.backends.null.program import prepare
from pytest_attnmem.errors import UnknownValue
prepare(10**12)
torch.manual_seed(0)
a, many, rows = torch.randn(6, 6), torch.randn(3, 6, 6), torch.randn(6, 2)
tall, both = torch.randn(30, 4), torch.randn(6, 6, dtype=torch.cfloat)
symmetric, positive = a + a.mT, a @ a.mT + torch.eye(6)
positives = many @ many.mT + torch.eye(6)
"""

VALUES = (
    HOST
    + """
def least(x, y): return L.lstsq(x, y).solution
def orthogonal(x):
    weight = torch.nn.init.orthogonal_(torch.empty_like(x))
    return weight @ weight.mT
def svd(x, **options):
    u, s, vh = L.svd(x, full_matrices=False, **options)
    return (u * s.unsqueeze(-2)) @ vh, s
def eigenvalues(x): return torch.view_as_real(L.eigvals(x)).sort(-2).values
programs = [
    (torch.fft.fft, a), (torch.fft.irfft2, both), (torch.fft.rfftn, many),
    (L.qr, a), (L.qr, many), (lambda x: L.qr(x, "complete")[0], tall), (orthogonal, a),
    (lambda x: L.householder_product(*torch.geqrf(x)), tall),
    (lambda x, y: torch.ormqr(*torch.geqrf(x), y), a, rows),
    (L.cholesky, positive), (L.cholesky, positives), (L.cholesky_ex, positive - 9 * torch.eye(6)),
    (torch.cholesky_solve, rows, L.cholesky(positive)), (torch.cholesky_inverse, positive),
    (svd, a), (svd, many), (svd, tall), (L.svdvals, both), (L.pinv, tall), (L.matrix_rank, a),
    (lambda x: L.svdvals(x, driver="gesvda" if x.is_cuda else None), many),
    (lambda x: L.svdvals(x, driver="gesvd" if x.is_cuda else None), tall),
    (lambda x: L.eigh(x)[0], symmetric), (L.eigvalsh, positives), (L.eigvalsh, both + both.mH),
    (eigenvalues, a), (eigenvalues, both), (lambda x: L.eig(x)[0].abs().sort()[0], many),
    (L.solve, a, rows), (L.solve, many, rows), (L.inv, a), (L.inv, many.repeat(4, 1, 1)),
    (L.lu_factor, torch.randn(3, 40, 20)),  # by MAGMA on PyTorch 2.13
    (L.lu, a), (L.lu_factor, many), (L.lu_factor, both), (L.det, a), (L.slogdet, many),
    (L.ldl_factor, symmetric), (lambda x, y: L.ldl_solve(*L.ldl_factor(x), y), symmetric, rows),
    (L.matrix_exp, a / 9), (L.matrix_exp, both), (L.matrix_exp, many * rows[:3, :1, None]),
    (lambda x: torch.func.grad(lambda y: L.matrix_exp(y).sum())(x), a),
    (least, tall, tall[:, :2]), (least, positives, positives),
    (lambda x, y: L.solve_triangular(x, y, upper=True), positives, rows),
    (lambda x: torch.func.grad(lambda y: L.qr(y)[1].abs().sum() + L.det(y))(x), a),
    (lambda x: torch.func.grad(lambda y: torch.fft.rfft(y).abs().sum())(x), a),
]
def listed(results): return results if isinstance(results, tuple) else (results,)
different = []
for number, (program, *given) in enumerate(programs):
    device = listed(program(*[one.cuda() for one in given]))
    for found, expected in zip(device, listed(program(*given)), strict=True):
        if not torch.allclose(found.cpu(), expected, atol=1e-4, rtol=1e-3):
            different.append([number, found.tolist(), expected.tolist()])
unknown = counts.unknown_calls()
answer(different, counts.device_reads(), sorted({name[:6] for name in unknown}))
"""
)


def test_values_are_the_host_s(under):
    assert under(VALUES) == ([], 0, ["cufftX", "cusolv"])


ERRORS = (
    HOST
    + """
def error(call, *given):
    try: return str(call(*given))
    except L.LinAlgError as error: return str(error)
    except (RuntimeError, UnknownValue) as error: return type(error).__name__ + ": " + str(error)
zeros, bad = torch.zeros(3, 3), torch.stack([positive, -positive, positive])
programs = [
    (L.cholesky, -positive), (L.cholesky, bad), (L.inv, zeros), (L.solve, zeros, zeros),
    (lambda x: L.cholesky_ex(x, check_errors=True), bad), (L.eig, a * float("inf")),
    (lambda x: L.inv_ex(x, check_errors=True), zeros), (L.svdvals, a * float("nan")),
    (lambda x: L.eigh(x, out=(x.new_empty(6), x.new_empty(6, 6))), a * float("nan")),
    (lambda x: L.pinv(x, out=x.new_empty(6, 6)).isfinite().all().item(), a),
    (lambda x: L.eig(x[:0]).eigenvalues.shape, many),
]
different = []
for number, (program, *given) in enumerate(programs):
    found, expected = (error(program, *to) for to in ([one.cuda() for one in given], given))
    if found != expected: different.append([number, found, expected])
x = bad.cuda()
first = error(L.cholesky, x)
kept = torch.equal(x.cpu(), bad)
infinite = error(lambda x: L.eigvals(x).tolist(), a.cuda() * float("inf"))
large = error(L.eig, torch.eye(4000, device="cuda"))
endless = error(L.matrix_exp, many.cuda() * float("inf"))
half = error(L.svd, a.half().cuda())
found = noting()
def unseen():  # as compiled code calls it
    with torch._C._ExcludeDispatchKeyGuard(found._keys): return L.eig(a.cuda())
compiled = error(found.reads.run_unanswered, unseen)
tall = torch.eye(8, 4, device="cuda") * torch.arange(4.0, device="cuda")
dependent = error(L.lstsq, tall, tall)
answer(different, kept, half, [infinite, large, dependent, endless, compiled])
"""
)


def test_errors_are_the_host_s_and_what_nobody_can_know_is_refused(under):
    different, kept, half, unknown = under(ERRORS)
    assert (different, kept) == ([], True)
    assert half.endswith("_cuda_gesvdjBatched\" not implemented for 'Half'")
    lines = [text.removeprefix("UnknownValue: a value was read at <script>:") for text in unknown]
    infinite, large, dependent, endless, compiled = (
        text.partition(" that is not known: ")[2] for text in lines
    )
    assert infinite == "aten._linalg_eigvals.default: its input has infinities or NaN"
    work = "it takes 6.4e+13 floating-point operations, and --attnmem-values-limit is 1.0e+12"
    assert large == work
    assert endless == "torch.linalg.matrix_exp: its input has infinities or NaN"
    raised = "torch.linalg.eig: input tensor should not contain infs or NaNs."
    assert compiled == f"compiled code reads the device inside, and raised: {raised}"
    assert dependent.startswith("aten.linalg_lstsq.default: torch.linalg.lstsq: ")


FRAMES = (
    HOST
    + """
import gc, weakref
class Local: pass
def program(call, x):
    local = Local()
    try: call(x)
    except (RuntimeError, NotImplementedError, UnknownValue) as error: text = str(error)
    return weakref.ref(local)
calls = {
    "decomposition": (L.cholesky, -positive), "convergence": (L.svdvals, a * float("nan")),
    "unknown": (lambda x: L.eigvals(x).tolist(), a * float("inf")),
    "half precision": (lambda x: str(x.half().clamp(1e9)), a), "sizes": (lambda x: x @ x[:5], a),
}
given = {name: (call, x.cuda()) for name, (call, x) in calls.items()}
for call, x in given.values(): program(call, x)  # PyTorch may import its compiler at first
gc.collect()
gc.disable()
answer([name for name, (call, x) in given.items() if program(call, x)() is not None])
"""
)


def test_an_error_keeps_no_frame_of_the_program_alive(under):
    assert under(FRAMES) == ([],)


WINDOWS = (
    HOST
    + """
from pytest_attnmem import measure
weight = torch.nn.init.orthogonal_(torch.empty(64, 64, device="cuda"))
weight, many, x = weight @ weight.mT, many.cuda(), torch.eye(64).cuda() / 2
calls = [
    torch.fft.fft, torch.fft.fft, L.qr, L.cholesky, L.svd, L.eigh, L.eigvals, L.inv, L.ldl_factor,
    lambda x: x * 2,
]
windows = [measure(call, weight, backend="null") for call in calls]
exact = [
    measure(call, backend="null").peak_bytes for call in (
        lambda: L.lu_factor_ex(many), lambda: L.cholesky_ex(many),
        lambda: L.solve_triangular(many, many, upper=True), lambda: L.matrix_exp(x),
    )
]
answer([window.unmeasured for window in windows], windows[-1].peak_bytes, exact)
"""
)


GPU = "takes scratch that is known on a GPU alone; keep it out of the window"
SOLVERS = ("orgqr", "potrf", "gesvdj", "syevBatched", "geev", "getrf", "sytrf")
#: Of three matrices 6x6: result, pivots, numbers of errors, addresses of the matrices.
MATRICES, PIVOTS, NUMBERS, ADDRESSES = 3 * 6 * 6 * 4, 3 * 6 * 4, 3 * 4, 3 * 8
WORKSPACE = 8519680  # of cuBLAS, which PyTorch 2.15 allocates at each product


def test_only_a_window_with_scratch_that_the_library_alone_knows_is_not_enforced(under):
    """A plan of cuFFT that was made before the window needs its workspace in the window too."""
    reasons, peak, (*exact, exponential) = under(WINDOWS)
    solvers = [f"cuSOLVER's {solver} {GPU}" for solver in SOLVERS]
    assert reasons == [f"cuFFT {GPU}", f"cuFFT {GPU}", *solvers, None]
    assert peak == 64 * 64 * 4
    assert [found % WORKSPACE for found in exact] == [
        MATRICES + PIVOTS + NUMBERS + ADDRESSES,
        MATRICES + NUMBERS + ADDRESSES,
        MATRICES + 2 * ADDRESSES,
    ]
    assert exponential % WORKSPACE // (64 * 64 * 4) == 9  # a polynomial of degree 8, by the norm


def test_a_program_goes_on_after_a_decomposition_whose_outcome_nobody_can_know(under):
    script = """
import torch
from pytest_attnmem.backends.null.noting import noting
from pytest_attnmem.backends.null.program import prepare
prepare(10**6, must_know=False)
x = torch.zeros(64, 64, device="cuda")
for decompose in (torch.linalg.cholesky, torch.linalg.eigvalsh, torch.linalg.eig):
    decompose(x)
answer(noting().reads.unknown)
"""
    ((first, second, third),) = under(script)
    lines = [text.partition(" that is not known: ")[2] for text in (first, second, third)]
    limit = "floating-point operations, and --attnmem-values-limit is 1.0e+06"
    assert lines == [f"it takes {work} {limit}" for work in ("2.6e+06", "1.0e+07", "2.6e+08")]
