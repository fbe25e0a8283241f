"""Programs that factorize batches of small matrices and solve with them, in four dtypes."""

from functools import partial
from itertools import product

import torch

PROGRAMS = {}
#: The batch, the rows of a matrix, and the right-hand sides.
SIZES = (
    *(((2,), 1, 1), ((3,), 2, 5), ((2,), 7, 40), ((2,), 8, 8), ((2, 3), 5, 1), ((9,), 3, 300)),
    *(((70,), 6, 2), ((300,), 8, 3), ((1, 2), 4, 4), ((4000,), 3, 1)),
)
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _factors(matrix):
    return torch.linalg.lu_factor(matrix)


OPS = {
    "lu_factor": lambda matrix, _: _factors(matrix),
    "lu_solve": lambda matrix, other: torch.linalg.lu_solve(*_factors(matrix), other),
    "lu_solve_adjoint": lambda matrix, other: torch.linalg.lu_solve(
        *_factors(matrix), other, adjoint=True
    ),
    "solve": torch.linalg.solve,
    "solve_vectors": lambda matrix, other: torch.linalg.solve(matrix, other[..., 0].contiguous()),
    "solve_from_the_right": lambda matrix, other: torch.linalg.solve(matrix, other.mT, left=False),
    "inv": lambda matrix, _: torch.linalg.inv(matrix),
    "inv_of_transposed": lambda matrix, _: torch.linalg.inv_ex(matrix.mT),
    "det": lambda matrix, _: torch.linalg.det(matrix),
    "slogdet": lambda matrix, _: torch.linalg.slogdet(matrix),
    "cholesky": lambda matrix, _: torch.linalg.cholesky(matrix),
    "cholesky_upper": lambda matrix, _: torch.linalg.cholesky_ex(matrix, upper=True),
}


def _run(op, batch, rows, sides, dtype):
    matrix = torch.eye(rows, dtype=dtype, device="cuda").repeat(*batch, 1, 1)
    OPS[op](matrix, torch.ones(*batch, rows, sides, dtype=dtype, device="cuda"))


for op, (position, sizes) in product(OPS, enumerate(SIZES)):
    for dtype in (DTYPES[position % 4], DTYPES[(position + 2) % 4]):
        name = f"{op} {sizes} {str(dtype).removeprefix('torch.')}"
        PROGRAMS[name] = partial(_run, op, *sizes, dtype)


def gradients(function):
    matrix = torch.eye(3, device="cuda").repeat(16, 1, 1).requires_grad_()
    function(matrix).sum().backward()


for name, function in {
    "gradient of inv": torch.linalg.inv,
    "gradient of det": torch.linalg.det,
    "gradient of solve": lambda matrix: torch.linalg.solve(matrix, matrix * 2),
    "gradient of lu_solve": lambda matrix: torch.linalg.lu_solve(
        *_factors(matrix.detach()), matrix
    ),
    "gradient of slogdet": lambda matrix: torch.linalg.slogdet(matrix)[1],
}.items():
    PROGRAMS[name] = partial(gradients, function)
