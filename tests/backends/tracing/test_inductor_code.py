"""Buffers of compiled code, from code as Inductor generates it."""

import pytest
import torch

from pytest_attnmem.backends.tracing.inductor_code import UNKNOWN, buffer_at, place_of

CODE = """
# AOT ID: ['3_backward']
import torch
def call(self, args):
        primals_1, tangents_1, mm, s0 = args
        buf0 = mm; del mm  # reuse
        # Topologically Sorted Source Nodes: [mul_6], Original ATen: [aten.mul]
        triton_poi_fused_mul_0.run(buf0, tangents_1, 262144, stream=raw_stream0)
        buf2 = empty_strided_cuda((256, 512), (512, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mm_2], Original ATen: [aten.mm]
        extern_kernels.mm(buf0, permute_1, out=buf2)
        buf6 = empty_strided_cuda((), (), torch.bfloat16)
        buf8 = empty_strided_cuda((s0, 2), (1, s0), torch.float32)
        assert_size_stride_grouped((buf6, ), ((), ), ((), ), 'input')
        # Topologically Sorted Source Nodes: [y], Original ATen: [aten.add, aten.mul, OTHERS]
        triton_red_fused_1.run(buf2, primals_1, buf6, 1024, stream=raw_stream0)
        buf9 = reinterpret_tensor(buf8, (s0, 2), (2, 1), 0); del buf8  # reuse
        # Topologically Sorted Source Nodes: [z], Original ATen: [prims.fma]
        triton_poi_2.run(buf9, 4, stream=raw_stream0)
        buf10 = torch.ops.aten.sort.default(buf2)
        buf11 = empty_strided_cuda((4, ), (1, ), torch.int8)
        return (buf9, buf11, )
""".replace("OTHERS", "aten.add, aten.sum, aten.gelu")


@pytest.fixture
def at(tmp_path):
    """Returns a function that returns the buffer that a line of the code allocated."""
    path = tmp_path / "cabc.py"
    path.write_text(CODE, "utf-8")

    def found(text):
        line = next(n for n, one in enumerate(CODE.splitlines(), 1) if text in one)
        place = place_of([(torch.__file__, 1, "f"), (str(path), line, "call"), ("a.py", 3, "f")])
        assert place is not None
        held = buffer_at(64, place)
        assert (held.nbytes, held.where, held.function) == (64, f"cabc.py:{line}", place.graph)
        return held

    return found


@pytest.mark.parametrize(
    ("line", "shape", "dtype", "op"),
    [
        ("buf2 =", (256, 512), "float32", "mm"),
        ("buf6 =", (), "bfloat16", "add, mul, sum and 1 more"),
        ("buf8 =", (), "", "prims.fma"),  # a size is a symbol
        ("buf10 =", (), "", UNKNOWN),  # an operator allocates here
        ("buf11 =", (4,), "int8", UNKNOWN),  # no kernel writes it
    ],
)
def test_a_buffer_has_its_shape_and_the_operators_of_the_kernel_that_writes_it_first(
    at, line, shape, dtype, op
):
    held = at(line)
    assert (held.shape, held.dtype, held.op) == (shape, dtype, op)
    assert held.function == "graph 3_backward"


def test_only_generated_code_has_buffers(tmp_path):
    own = tmp_path / "model.py"
    own.write_text("# AOT ID: mine\n", "utf-8")
    assert place_of([(str(own), 1, "call"), (str(tmp_path / "cabc.py"), 1, "call")]) is None
    assert place_of([(str(tmp_path / "gone.py"), 1, "call")]) is None
    assert place_of([]) is None
