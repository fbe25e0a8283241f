"""Operators that take other memory under ``torch.use_deterministic_algorithms``: it is unknown.

Some run another algorithm then, and PyTorch fills new memory, which takes a number besides. On the
null device with PyTorch 2.13, the samples of ``op_db`` ran with the flag: each sample whose peak
was another one than the rules give has one of these operators. Eleven of them are relatives of
those, as ``scatter_add`` is of ``scatter_add_``. Factorizations, which got rules later, are refused
without a comparison.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = """
    _linalg_det.default _linalg_slogdet.default _linalg_solve_ex.default
    linalg_cholesky_ex.default linalg_inv_ex.default linalg_lu_solve.default
    _adaptive_avg_pool2d.default _adaptive_avg_pool3d.default _flash_attention_backward.default
    _flash_attention_forward.default _index_put_impl_.default _pdist_backward.default
    _pdist_forward.default _prelu_kernel.default addbmm.default allclose.default arange.default
    arange.start arange.start_step bucketize.Tensor ceil_.default clamp.Tensor clamp.default
    clamp_max.Tensor clamp_min.Tensor complex.default cummax.default cummin.default cumsum.default
    embedding.default embedding_dense_backward.default eq.Tensor eye.default eye.m
    fractional_max_pool3d.default fractional_max_pool3d_backward.default gather.default
    glu.default index.Tensor index_add.default index_add_.default index_copy.default
    index_copy_.default index_put.default index_put_.default index_reduce.default
    index_select_backward.default kthvalue.default lerp_.Tensor linalg_lu_factor_ex.default
    logical_and.default logical_and_.default logical_not.default logical_or.default
    logical_xor.default logsumexp.default lu_unpack.default max.dim max_unpool2d.default
    max_unpool3d.default median.default median.dim min.dim mish.default mode.default
    multi_margin_loss.default multi_margin_loss_backward.default
    multilabel_margin_loss_backward.default multilabel_margin_loss_forward.default
    multinomial.default nanmedian.dim native_group_norm.default native_group_norm_backward.default
    nextafter.default nll_loss2d_backward.default nll_loss2d_forward.default polar.default
    pow.Tensor_Tensor reflection_pad2d.default reflection_pad2d_backward.default remainder.Scalar
    repeat_interleave.Tensor resize_.default scatter.src scatter.value scatter_.src
    scatter_add.default scatter_add_.default scatter_reduce.two scatter_reduce_.two
    searchsorted.Tensor sgn.default soft_margin_loss.default sort.default sort.stable
    std.correction std_mean.correction topk.default trace.default triangular_solve.default
    triu.default unfold_backward.default upsample_bilinear2d_backward.default var.correction
    var_mean.correction where.self
"""
#: The names of the operators and their overloads.
UNLIKE: Final = frozenset(f"aten.{name}" for name in _NAMES.split())
